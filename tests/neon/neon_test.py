"""The kernels built for another processor (64-bit ARM, NEON) and run in an emulator: neon_test.py SOURCE_FOLDER.

Needs Debian's g++-aarch64-linux-gnu and qemu-user-static; without them the test is skipped and says so.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
SKIPPED = 77
SOURCES = ("tests/neon/kernel_check.cc", "src/attention/attention_kernel.cc", "src/attention/blocked_kernel.cc",
           "src/attention/reference_kernel.cc", "src/attention/task_chains.cc", "src/attention/work_team.cc",
           "src/attention/simd/backward_lanes.cc", "src/attention/simd/dot_rows.cc", "src/attention/simd/forward_lanes.cc",
           "src/model/softmax_rows.cc", "src/base/error.cc")
# Headers alone of the libraries: those of Debian are for this processor. One level instead of dispatch at run time needs none of
# Highway's. NEON, to Highway, is with the AES instructions.
OPTIONS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-march=armv8-a+crypto",
           "-DHWY_COMPILE_ONLY_STATIC", "-DFMT_HEADER_ONLY")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    missing = [tool for tool in (COMPILER, EMULATOR) if not shutil.which(tool)]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} (apt-get install g++-aarch64-linux-gnu qemu-user-static)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder) / "include"
        include.mkdir()
        for library in ("hwy", "fmt"):
            (include / library).symlink_to(pathlib.Path("/usr/include") / library)
        program = pathlib.Path(folder) / "kernel_check"
        subprocess.run([COMPILER, *OPTIONS, f"-I{root}/src", f"-I{root}", "-isystem", include, "-o", program,
                        *(root / source for source in SOURCES)], check=True)
        found = subprocess.run([EMULATOR, program], capture_output=True, text=True)
    print(found.stdout, found.stderr, sep="", end="")
    return 0 if found.returncode == 0 and "compiled for NEON" in found.stdout else 1


if __name__ == "__main__":
    sys.exit(main())
