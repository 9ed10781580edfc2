// A map of rows over time: a canvas that zooms by drag, wheel and keys, and says what lies under the pointer. Every row is
// painted as pixels, so that 16,384 rows cost what 1,024 cost: where several rows share a pixel row, their colours are averaged.
// What a row is and how it is painted comes from the class that extends this one: plan_map.js, timeline_map.js.

const MAP_LEFT = 64, MAP_BOTTOM = 26, MAP_TOP = 6, MAP_RIGHT = 10;
const MOST_ROWS_PER_PIXEL = 12;
const LEAST_ROW_WITH_GAPS = 7;
const GOLDEN_RATIO = 0.618034;

function rgbOf(variable) {
  const hex = themeColour(variable);
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
const mix = (a, b, share) => a.map((from, i) => Math.round(from + (b[i] - from) * share));
const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;

// Extended with: makePalette() -> {idle, ...}, packed colours; paintRow(row, pixels, scale), which fills a row's pixels over
// palette.idle; rowLabel(row); marks() -> [[time, dash]]; describe({row, time}) -> {lines, shared}: texts, and what of them
// this.highlight shall be.
class RowMap {
  constructor(host, status, label) {
    this.status = status;
    this.canvas = element('canvas', {tabIndex: 0, 'aria-label': `${label} from top to bottom, time from left to right. Arrow keys move, plus and minus zoom, 0 shows all.`});
    this.canvas.setAttribute('role', 'img');
    this.tip = element('div', {class: 'tip', hidden: true});
    this.selection = element('div', {class: 'box', hidden: true});
    host.append(this.canvas, this.tip, this.selection);
    this.highlight = null;
    this.listen();
    new ResizeObserver(() => this.requestDraw()).observe(this.canvas);
  }

  showRows(rows, wholeTime) {
    this.rows = rows;
    this.wholeTime = Math.max(1, wholeTime) * 1.01;
    this.highlight = null;
    this.status.textContent = ' ';
    this.reset();
  }

  reset() {
    this.view = {t0: 0, t1: this.wholeTime, r0: 0, r1: this.rows};
    this.requestDraw();
  }

  requestDraw() {
    if (this.pending || !this.rows) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  size() {
    return {width: Math.max(50, this.canvas.clientWidth - MAP_LEFT - MAP_RIGHT), height: Math.max(50, this.canvas.clientHeight - MAP_TOP - MAP_BOTTOM)};
  }

  paint(image, width, height) {
    const {view} = this, pixels = new Uint32Array(image.data.buffer), row = new Uint32Array(width);
    const perPixel = (view.r1 - view.r0) / height, scale = width / (view.t1 - view.t0);
    if (perPixel <= 1) {
      const rowPixels = 1 / perPixel, gap = rowPixels >= LEAST_ROW_WITH_GAPS * devicePixelRatio ? Math.ceil(devicePixelRatio) : 0;
      for (let r = Math.floor(view.r0); r < Math.min(this.rows, Math.ceil(view.r1)); ++r) {
        row.fill(this.palette.idle);
        this.paintRow(r, row, scale);
        const y0 = Math.max(0, Math.round((r - view.r0) / perPixel)), y1 = Math.min(height, Math.round((r + 1 - view.r0) / perPixel));
        for (let y = y0; y < y1 - gap; ++y) pixels.set(row, y * width);
        for (let y = Math.max(y0, y1 - gap); y < y1; ++y) pixels.fill(this.palette.idle, y * width, (y + 1) * width);
      }
      return;
    }
    const sums = [new Uint32Array(width), new Uint32Array(width), new Uint32Array(width)];
    const samples = Math.min(MOST_ROWS_PER_PIXEL, Math.ceil(perPixel));
    // Samples at even distances could all hit the same stage, or the same place in a node; these do not.
    const offset = (y, i) => (samples < perPixel ? ((y * samples + i) * GOLDEN_RATIO) % 1 : 0.5);
    for (let y = 0; y < height; ++y) {
      sums.forEach((sum) => sum.fill(0));
      let count = 0;
      for (let i = 0; i < samples; ++i) {
        const r = Math.floor(view.r0 + (y + (i + offset(y, i)) / samples) * perPixel);
        if (r >= this.rows) continue;
        row.fill(this.palette.idle);
        this.paintRow(r, row, scale);
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
    this.palette = this.makePalette();
    const w = Math.round(width * ratio), h = Math.round(height * ratio);
    const image = context.createImageData(w, h);
    this.paint(image, w, h);
    context.putImageData(image, Math.round(MAP_LEFT * ratio), Math.round(MAP_TOP * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawAxes(context, width, height);
  }

  drawAxes(context, width, height) {
    const {view} = this;
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
      if (tick >= this.rows) continue;
      const y = MAP_TOP + (tick + 0.5 - view.r0) * rowHeight;
      if (y < MAP_TOP || y > MAP_TOP + height) continue;
      context.fillRect(MAP_LEFT - 5, y, 4, 1);
      context.fillText(this.rowLabel(tick), MAP_LEFT - 8, y);
    }
    for (const [time, dash] of this.marks()) {
      const x = MAP_LEFT + (time - view.t0) / (view.t1 - view.t0) * width;
      if (x < MAP_LEFT || x > MAP_LEFT + width) continue;
      context.setLineDash(dash);
      context.strokeStyle = themeColour('--text');
      context.beginPath();
      context.moveTo(x, MAP_TOP);
      context.lineTo(x, MAP_TOP + height);
      context.stroke();
      context.setLineDash([]);
    }
  }

  // Row and time under a point of the canvas; null outside.
  at(x, y) {
    const {width, height} = this.size(), {view} = this;
    const right = (x - MAP_LEFT) / width, down = (y - MAP_TOP) / height;
    if (right < 0 || right > 1 || down < 0 || down > 1) return null;
    const row = Math.floor(view.r0 + down * (view.r1 - view.r0));
    if (row < 0 || row >= this.rows) return null;
    return {row, time: view.t0 + right * (view.t1 - view.t0)};
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

  // Keeps the view inside the rows and the time, and above a least size.
  setView(view) {
    const limit = (low, high, most, least) => {
      const size = Math.min(most, Math.max(least, high - low));
      const from = Math.max(0, Math.min(most - size, low + (high - low - size) / 2));
      return [from, from + size];
    };
    const [t0, t1] = limit(view.t0, view.t1, this.wholeTime, Math.min(this.wholeTime, 1000));
    const [r0, r1] = limit(view.r0, view.r1, this.rows, Math.min(this.rows, 1));
    this.view = {t0, t1, r0, r1};
    this.requestDraw();
  }

  // Zooms so that the point at these shares of the map stays where it is.
  zoom(factor, right, down, axes) {
    const {t0, t1, r0, r1} = this.view;
    const time = axes === 'rows' ? 1 : factor, rows = axes === 'time' ? 1 : factor;
    const t = t0 + right * (t1 - t0), r = r0 + down * (r1 - r0);
    this.setView({t0: t - (t - t0) * time, t1: t + (t1 - t) * time, r0: r - (r - r0) * rows, r1: r + (r1 - r) * rows});
  }

  pan(right, down) {
    const {t0, t1, r0, r1} = this.view, time = right * (t1 - t0), rows = down * (r1 - r0);
    this.setView({t0: t0 + time, t1: t1 + time, r0: r0 + rows, r1: r1 + rows});
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
      this.zoom(Math.exp(Math.sign(delta) * Math.min(0.5, Math.abs(delta) / 400)), ...this.shares(event), event.shiftKey ? 'time' : event.altKey ? 'rows' : 'both');
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
