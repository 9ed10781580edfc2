// The plan as a map: a row per rank, time to the right.

const NUM_PACK_SHADES = 64;

class PlanMap extends RowMap {
  constructor(host, status) {
    super(host, status, 'Plan map: ranks');
  }

  show(plan) {
    this.plan = plan;
    this.showRows(plan.ranks, plan.makespan_ns);
  }

  rowLabel(rank) {
    return rank === 0 ? 'rank 0' : String(rank);
  }

  marks() {
    return [[this.plan.makespan_ns, []], [this.plan.bound_ns, [5, 4]]];
  }

  // What a box lasts: its own time, or in pipelines the whole slot.
  endOf(box) {
    const plan = this.plan, slot = plan.box_slot[box];
    return plan.stages > 1 ? plan.slot_end[slot] : plan.slot_start[slot] + plan.box_own[box];
  }

  makePalette() {
    const idle = rgbOf('--idle');
    const dim = (colour) => mix(idle, colour, 0.22);
    const low = rgbOf('--pack-low'), high = rgbOf('--pack-high'), card = rgbOf('--text');
    const colours = [];
    for (let i = 0; i < NUM_SERIES_COLOURS; ++i) colours.push(rgbOf(seriesVariable(i)));
    return {
      idle: packed(idle), wait: packed(this.highlight === null ? rgbOf('--wait') : dim(rgbOf('--wait'))),
      // Neighbours differ in hue; those of one hue in lightness.
      rings: this.plan.ring_id.map((unused, i) => {
        const colour = mix(colours[i % NUM_SERIES_COLOURS], card, 0.16 * (Math.floor(i / NUM_SERIES_COLOURS) % 3));
        return packed(this.highlight === null || this.highlight === i ? colour : dim(colour));
      }),
      pack: Array.from({length: NUM_PACK_SHADES}, (unused, i) => {
        const shade = mix(low, high, i / (NUM_PACK_SHADES - 1));
        return packed(this.highlight === null ? shade : dim(shade));
      }),
    };
  }

  paintRow(rank, row, scale) {
    const {plan, palette, view} = this;
    const toX = (t) => Math.round((t - view.t0) * scale);
    for (let b = plan.first_box[rank]; b < plan.first_box[rank + 1]; ++b) {
      const slot = plan.box_slot[b], start = plan.slot_start[slot], end = this.endOf(b);
      const x0 = toX(start), x1 = Math.max(toX(end), x0 + 1), waitEnd = toX(plan.slot_end[slot]);
      if (waitEnd < 0 || x0 >= row.length) continue;
      if (waitEnd > x1) row.fill(palette.wait, Math.max(0, x1), Math.min(row.length, waitEnd));
      const pack = palette.pack[Math.min(NUM_PACK_SHADES - 1, Math.round(plan.box_tokens[b] / plan.capacity * (NUM_PACK_SHADES - 1)))];
      let done = 0;
      const last = b + 1 < plan.box_part.length ? plan.box_part[b + 1] : plan.part_ring.length;
      for (let p = plan.box_part[b]; p < last; ++p) {
        const from = x0 + Math.round((x1 - x0) * done / 1000);
        done += plan.part_permille[p];
        const to = p + 1 === last ? x1 : x0 + Math.round((x1 - x0) * done / 1000);
        const ring = plan.part_ring[p];
        const colour = ring < 0 ? pack : palette.rings[ring];
        row.fill(colour, Math.max(0, from), Math.max(0, Math.min(row.length, to)));
      }
    }
  }

  boxAt({row, time}) {
    const plan = this.plan;
    for (let b = plan.first_box[row + 1] - 1; b >= plan.first_box[row]; --b) {
      const slot = plan.box_slot[b];
      if (time >= plan.slot_start[slot] && time < plan.slot_end[slot]) return b;
    }
    return null;
  }

  // Lines of text about a place, and the shared sequence that is there.
  describe(place) {
    const plan = this.plan, box = this.boxAt(place);
    if (box === null) {
      const done = place.time >= plan.rank_finish[place.row];
      return {lines: [`rank ${place.row}: idle at ${format(place.time, 'ns')}`, done ? 'has nothing left to run' : 'waits for the ranks of its next slot'], shared: null};
    }
    const slot = plan.box_slot[box], start = plan.slot_start[slot], end = this.endOf(box), wait = plan.slot_end[slot] - end;
    const lines = [`rank ${place.row}, slot ${slot}: ${format(plan.box_tokens[box], 'tokens')} tokens`,
      `${format(start, 'ns')} to ${format(end, 'ns')}: ${format(end - start, 'ns')}` + (wait > 0 ? `, then waits ${format(wait, 'ns')} for the slot’s slowest` : '')];
    if (plan.box_ratio[box] > 0) lines.push(`offload ratio ${format(plan.box_ratio[box], 'ratio')}`);
    let shared = null, done = 0;
    const last = box + 1 < plan.box_part.length ? plan.box_part[box + 1] : plan.part_ring.length;
    const share = (place.time - start) / Math.max(1, end - start) * 1000;
    for (let p = plan.box_part[box]; p < last; ++p) {
      const ring = plan.part_ring[p], tokens = format(plan.part_tokens[p], 'tokens');
      if (share >= done && share <= done + plan.part_permille[p] && ring >= 0) shared = ring;
      done += plan.part_permille[p];
      if (ring < 0) {
        lines.push(`${plan.part_sequences[p]} whole sequence${plan.part_sequences[p] === 1 ? '' : 's'}, ${tokens} tokens`);
        continue;
      }
      const more = plan.ring_sequences[ring] - 1;
      lines.push(`sequence ${plan.ring_id[ring]}${more > 0 ? ` and ${more} more` : ''}: ${tokens} of ${format(plan.ring_tokens[ring], 'tokens')} tokens, shared by ${plan.ring_degree[ring]} ranks`);
    }
    return {lines, shared};
  }
}
