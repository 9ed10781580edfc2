#!/usr/bin/env python3
"""Writes the quantile table of a list of lengths as a C++ array (src/corpus/wikipedia_quantiles.cc).

Usage: tools/make_length_quantiles.py LENGTHS(.gz) OUT.cc. LENGTHS has one length a line. The table is all that the
project keeps of the list: knots at every percent of the samples, and ten a decade in the last one.
"""

import gzip
import sys


def knots(count):
    """(samples at or below, out of count) for each knot, ascending, first 0 and last count."""
    shares = [percent / 100 for percent in range(100)]
    shares += [1 - 10 ** (-2 - step / 10) for step in range(0, 60)]
    places = sorted({min(count - 1, round(share * (count - 1))) for share in shares} | {0, count - 1})
    return places


def main():
    source, out = sys.argv[1:3]
    opener = gzip.open if source.endswith(".gz") else open
    with opener(source, "rt") as lines:
        lengths = sorted(int(line) for line in lines if line.strip())
    count = len(lengths)
    rows = [(place, lengths[place]) for place in knots(count)]
    with open(out, "w") as file:
        file.write("// Written by tools/make_length_quantiles.py; the list itself is not part of the project.\n")
        file.write(f"// {count} token lengths of Wikipedia documents (PKU-DAIR/Hetu-Galvatron, branch flexsp, "
                   "Apache-2.0).\n")
        file.write('#include "corpus/wikipedia_quantiles.h"\n\nnamespace weft {\nnamespace {\n\n')
        file.write("constexpr LengthQuantile kQuantiles[] = {\n")
        for place, length in rows:
            file.write(f"    {{{place / (count - 1):.9g}, {length}}},\n")
        file.write("};\n\n}  // namespace\n\n")
        file.write("std::span<const LengthQuantile> wikipedia_quantiles() { return kQuantiles; }\n\n")
        file.write("}  // namespace weft\n")


if __name__ == "__main__":
    main()
