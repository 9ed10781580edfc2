// The plan as a map: a row per rank, time to the right. Every row is painted as pixels, so that 16,384 ranks cost
// what 1,024 cost: where several ranks share a pixel row, their colours are averaged.

const MAP_LEFT = 64, MAP_BOTTOM = 26, MAP_TOP = 6, MAP_RIGHT = 10;
const MOST_RANKS_PER_PIXEL = 12;
const LEAST_ROW_WITH_GAPS = 7;
const NUM_PACK_SHADES = 64;

function rgbOf(variable) {
  const hex = themeColour(variable);
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
const mix = (a, b, share) => a.map((from, i) => Math.round(from + (b[i] - from) * share));
const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;

class PlanMap {
  constructor(host, status) {
    this.status = status;
    this.canvas = element('canvas', {tabIndex: 0, 'aria-label': 'Plan map: ranks from top to bottom, time from left to right. Arrow keys move, plus and minus zoom, 0 shows all.'});
    this.canvas.setAttribute('role', 'img');
    this.tip = element('div', {class: 'tip', hidden: true});
    this.selection = element('div', {class: 'box', hidden: true});
    host.append(this.canvas, this.tip, this.selection);
    this.highlight = null;
    this.listen();
    new ResizeObserver(() => this.requestDraw()).observe(this.canvas);
  }

  show(plan) {
    this.plan = plan;
    this.wholeTime = Math.max(1, plan.makespan_ns) * 1.01;
    this.highlight = null;
    this.reset();
  }

  reset() {
    this.view = {t0: 0, t1: this.wholeTime, r0: 0, r1: this.plan.ranks};
    this.requestDraw();
  }

  requestDraw() {
    if (this.pending || !this.plan) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  size() {
    return {width: Math.max(50, this.canvas.clientWidth - MAP_LEFT - MAP_RIGHT), height: Math.max(50, this.canvas.clientHeight - MAP_TOP - MAP_BOTTOM)};
  }

  // What a box lasts: its own time, or in pipelines the whole slot.
  endOf(box) {
    const plan = this.plan, slot = plan.box_slot[box];
    return plan.stages > 1 ? plan.slot_end[slot] : plan.slot_start[slot] + plan.box_own[box];
  }

  preparePalette() {
    const idle = rgbOf('--idle');
    const dim = (colour) => mix(idle, colour, 0.22);
    const low = rgbOf('--pack-low'), high = rgbOf('--pack-high'), card = rgbOf('--text');
    const colours = [];
    for (let i = 0; i < NUM_SERIES_COLOURS; ++i) colours.push(rgbOf(seriesVariable(i)));
    this.palette = {
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

  // One rank's row of pixels.
  paintRank(rank, row, scale) {
    const {plan, palette, view} = this;
    row.fill(palette.idle);
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

  paint(image, width, height) {
    const {view} = this, pixels = new Uint32Array(image.data.buffer), row = new Uint32Array(width);
    const perPixel = (view.r1 - view.r0) / height, scale = width / (view.t1 - view.t0);
    if (perPixel <= 1) {
      const rowPixels = 1 / perPixel, gap = rowPixels >= LEAST_ROW_WITH_GAPS * devicePixelRatio ? Math.ceil(devicePixelRatio) : 0;
      for (let rank = Math.floor(view.r0); rank < Math.min(this.plan.ranks, Math.ceil(view.r1)); ++rank) {
        this.paintRank(rank, row, scale);
        const y0 = Math.max(0, Math.round((rank - view.r0) / perPixel)), y1 = Math.min(height, Math.round((rank + 1 - view.r0) / perPixel));
        for (let y = y0; y < y1 - gap; ++y) pixels.set(row, y * width);
        for (let y = Math.max(y0, y1 - gap); y < y1; ++y) pixels.fill(this.palette.idle, y * width, (y + 1) * width);
      }
      return;
    }
    const sums = [new Uint32Array(width), new Uint32Array(width), new Uint32Array(width)];
    const samples = Math.min(MOST_RANKS_PER_PIXEL, Math.ceil(perPixel));
    for (let y = 0; y < height; ++y) {
      sums.forEach((sum) => sum.fill(0));
      let count = 0;
      for (let i = 0; i < samples; ++i) {
        const rank = Math.floor(view.r0 + (y + (i + 0.5) / samples) * perPixel);
        if (rank >= this.plan.ranks) continue;
        this.paintRank(rank, row, scale);
        for (let x = 0; x < width; ++x) {
          const colour = row[x];
          sums[0][x] += colour & 255; sums[1][x] += colour >> 8 & 255; sums[2][x] += colour >> 16 & 255;
        }
        ++count;
      }
      const base = y * width;
      for (let x = 0; x < width; ++x) pixels[base + x] = packed([sums[0][x] / count, sums[1][x] / count, sums[2][x] / count]);
    }
  }

  draw() {
    const ratio = devicePixelRatio || 1, {width, height} = this.size();
    const canvas = this.canvas, context = canvas.getContext('2d');
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    this.preparePalette();
    const w = Math.round(width * ratio), h = Math.round(height * ratio);
    const image = context.createImageData(w, h);
    this.paint(image, w, h);
    context.putImageData(image, Math.round(MAP_LEFT * ratio), Math.round(MAP_TOP * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawAxes(context, width, height);
  }

  drawAxes(context, width, height) {
    const {view, plan} = this;
    context.font = '12px system-ui, sans-serif';
    context.fillStyle = themeColour('--muted');
    context.strokeStyle = themeColour('--line');
    context.strokeRect(MAP_LEFT - 0.5, MAP_TOP - 0.5, width + 1, height + 1);
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const tick of niceTicks(view.t0, view.t1, width / 110)) {
      const x = MAP_LEFT + (tick - view.t0) / (view.t1 - view.t0) * width;
      context.fillRect(x, MAP_TOP + height, 1, 4);
      context.fillText(tickText('s')(tick / 1e9), x, MAP_TOP + height + 7);
    }
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    const rowHeight = height / (view.r1 - view.r0);
    for (const tick of niceTicks(view.r0, view.r1, height / 40, true)) {
      if (tick >= plan.ranks) continue;
      const y = MAP_TOP + (tick + 0.5 - view.r0) * rowHeight;
      if (y < MAP_TOP || y > MAP_TOP + height) continue;
      context.fillRect(MAP_LEFT - 5, y, 4, 1);
      context.fillText(`${tick === 0 ? 'rank ' : ''}${tick}`, MAP_LEFT - 8, y);
    }
    const mark = (t, dash) => {
      const x = MAP_LEFT + (t - view.t0) / (view.t1 - view.t0) * width;
      if (x < MAP_LEFT || x > MAP_LEFT + width) return;
      context.setLineDash(dash);
      context.strokeStyle = themeColour('--text');
      context.beginPath();
      context.moveTo(x, MAP_TOP);
      context.lineTo(x, MAP_TOP + height);
      context.stroke();
      context.setLineDash([]);
    };
    mark(plan.makespan_ns, []);
    mark(plan.bound_ns, [5, 4]);
  }

  // Rank and time under a point of the canvas; null outside.
  at(x, y) {
    const {width, height} = this.size(), {view} = this;
    const right = (x - MAP_LEFT) / width, down = (y - MAP_TOP) / height;
    if (right < 0 || right > 1 || down < 0 || down > 1) return null;
    const rank = Math.floor(view.r0 + down * (view.r1 - view.r0));
    if (rank < 0 || rank >= this.plan.ranks) return null;
    return {rank, time: view.t0 + right * (view.t1 - view.t0)};
  }

  boxAt({rank, time}) {
    const plan = this.plan;
    for (let b = plan.first_box[rank + 1] - 1; b >= plan.first_box[rank]; --b) {
      const slot = plan.box_slot[b];
      if (time >= plan.slot_start[slot] && time < plan.slot_end[slot]) return b;
    }
    return null;
  }

  // Lines of text about a place, and the shared sequence that is there.
  describe(place) {
    const plan = this.plan, box = this.boxAt(place);
    if (box === null) {
      const done = place.time >= plan.rank_finish[place.rank];
      return {lines: [`rank ${place.rank}: idle at ${format(place.time, 'ns')}`, done ? 'has nothing left to run' : 'waits for the ranks of its next slot'], shared: null};
    }
    const slot = plan.box_slot[box], start = plan.slot_start[slot], end = this.endOf(box), wait = plan.slot_end[slot] - end;
    const lines = [`rank ${place.rank}, slot ${slot}: ${format(plan.box_tokens[box], 'tokens')} tokens`,
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

  inspect(x, y, withTip) {
    const place = this.at(x, y);
    if (place === null) return this.leave();
    const {lines, shared} = this.describe(place);
    this.status.textContent = lines.join('; ');
    if (shared !== this.highlight) {
      this.highlight = shared;
      this.requestDraw();
    }
    this.tip.hidden = !withTip;
    if (!withTip) return undefined;
    this.tip.replaceChildren(...lines.map((line, i) => element(i === 0 ? 'b' : 'div', {text: line})));
    const toLeft = x > this.canvas.clientWidth / 2;
    this.tip.style.left = toLeft ? '' : `${x + 16}px`;
    this.tip.style.right = toLeft ? `${this.canvas.clientWidth - x + 16}px` : '';
    this.tip.style.top = `${Math.min(y + 12, this.canvas.clientHeight - 110)}px`;
    return undefined;
  }

  leave() {
    this.tip.hidden = true;
    if (this.highlight !== null) {
      this.highlight = null;
      this.requestDraw();
    }
  }

  // Keeps the view inside the plan, and above a least size.
  setView(view) {
    const limit = (low, high, most, least) => {
      const size = Math.min(most, Math.max(least, high - low));
      const from = Math.max(0, Math.min(most - size, low + (high - low - size) / 2));
      return [from, from + size];
    };
    const [t0, t1] = limit(view.t0, view.t1, this.wholeTime, Math.min(this.wholeTime, 1000));
    const [r0, r1] = limit(view.r0, view.r1, this.plan.ranks, Math.min(this.plan.ranks, 1));
    this.view = {t0, t1, r0, r1};
    this.requestDraw();
  }

  // Zooms so that the point at these shares of the map stays where it is.
  zoom(factor, right, down, axes) {
    const {t0, t1, r0, r1} = this.view;
    const time = axes === 'ranks' ? 1 : factor, ranks = axes === 'time' ? 1 : factor;
    const t = t0 + right * (t1 - t0), r = r0 + down * (r1 - r0);
    this.setView({t0: t - (t - t0) * time, t1: t + (t1 - t) * time, r0: r - (r - r0) * ranks, r1: r + (r1 - r) * ranks});
  }

  pan(right, down) {
    const {t0, t1, r0, r1} = this.view, time = right * (t1 - t0), ranks = down * (r1 - r0);
    this.setView({t0: t0 + time, t1: t1 + time, r0: r0 + ranks, r1: r1 + ranks});
  }

  onKey(event) {
    const actions = {
      ArrowLeft: () => this.pan(-0.1, 0), ArrowRight: () => this.pan(0.1, 0), ArrowUp: () => this.pan(0, -0.1), ArrowDown: () => this.pan(0, 0.1),
      '+': () => this.zoom(0.7, 0.5, 0.5), '=': () => this.zoom(0.7, 0.5, 0.5), '-': () => this.zoom(1 / 0.7, 0.5, 0.5),
      0: () => this.reset(), Home: () => this.reset(), Escape: () => this.canvas.blur(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
    const {width, height} = this.size();
    this.inspect(MAP_LEFT + width / 2, MAP_TOP + height / 2, false);
    this.leave();
  }

  shares(event) {
    const {width, height} = this.size();
    const clip = (share) => Math.max(0, Math.min(1, share));
    return [clip((event.offsetX - MAP_LEFT) / width), clip((event.offsetY - MAP_TOP) / height)];
  }

  listen() {
    const canvas = this.canvas;
    let start = null;
    canvas.addEventListener('wheel', (event) => {
      if (document.activeElement !== canvas && !event.ctrlKey) return;  // the page scrolls
      event.preventDefault();
      const delta = event.deltaY || event.deltaX;
      this.zoom(Math.exp(Math.sign(delta) * Math.min(0.5, Math.abs(delta) / 400)), ...this.shares(event), event.shiftKey ? 'time' : event.altKey ? 'ranks' : 'both');
    }, {passive: false});
    canvas.addEventListener('pointerdown', (event) => {
      canvas.focus();
      canvas.setPointerCapture(event.pointerId);
      start = {x: event.offsetX, y: event.offsetY, shares: this.shares(event), view: {...this.view}, pans: event.shiftKey || event.button === 1};
    });
    canvas.addEventListener('pointermove', (event) => {
      if (start === null) return this.inspect(event.offsetX, event.offsetY, true);
      const {width, height} = this.size();
      if (start.pans) {
        this.view = {...start.view};
        return this.pan((start.x - event.offsetX) / width, (start.y - event.offsetY) / height);
      }
      this.tip.hidden = true;
      Object.assign(this.selection, {hidden: false});
      Object.assign(this.selection.style, {left: `${Math.min(start.x, event.offsetX)}px`, top: `${Math.min(start.y, event.offsetY)}px`,
        width: `${Math.abs(event.offsetX - start.x)}px`, height: `${Math.abs(event.offsetY - start.y)}px`});
      return undefined;
    });
    canvas.addEventListener('pointerup', (event) => {
      this.selection.hidden = true;
      const from = start;
      start = null;
      if (from === null || from.pans || Math.hypot(event.offsetX - from.x, event.offsetY - from.y) < 8) return;
      const [x0, y0] = from.shares, [x1, y1] = this.shares(event), {t0, t1, r0, r1} = this.view;
      this.setView({t0: t0 + Math.min(x0, x1) * (t1 - t0), t1: t0 + Math.max(x0, x1) * (t1 - t0),
        r0: r0 + Math.min(y0, y1) * (r1 - r0), r1: r0 + Math.max(y0, y1) * (r1 - r0)});
    });
    canvas.addEventListener('pointercancel', () => { start = null; this.selection.hidden = true; });
    canvas.addEventListener('pointerleave', () => { if (start === null) this.leave(); });
    canvas.addEventListener('dblclick', () => this.reset());
    canvas.addEventListener('keydown', (event) => this.onKey(event));
  }
}

// Round numbers between low and high, about `count` of them.
function niceTicks(low, high, count, whole = false) {
  const rough = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  if (whole) step = Math.max(1, Math.round(step));
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return ticks;
}
