'use strict';
// The one place where numbers become text. Every number in the page's text goes through setNumber(), which
// leaves the exact value beside it in data-value.

const SECONDS = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];
const BYTES = [[2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];

function withUnit(value, units) {
  const [scale, unit] = units.find(([s]) => Math.abs(value) >= s) || units[units.length - 1];
  const scaled = value / scale;
  const digits = Number.isInteger(scaled) && Math.abs(scaled) < 1000 ? 0 : Math.abs(scaled) >= 100 ? 1 : Math.abs(scaled) >= 10 ? 2 : 3;
  return `${scaled.toFixed(digits)} ${unit}`;
}

function grouped(value, digits) {
  return value.toLocaleString('en-US', {minimumFractionDigits: 0, maximumFractionDigits: digits});
}

function format(value, unit) {
  if (value === null || value === undefined) return '–';
  switch (unit) {
    case 'text': return String(value);
    case 'count': return grouped(value, 2);
    case 'tokens': return grouped(value, 0);
    case 'tokens/s': return `${grouped(value, value < 100 ? 2 : 0)} tokens/s`;
    case 'share': return `${(100 * value).toFixed(Math.abs(value) < 0.1 ? 2 : 1)} %`;
    case 'ratio': return value.toFixed(3);
    case 'loss': return value.toFixed(4);
    case 'lr': return value === 0 ? '0' : value.toExponential(2);
    case 's': return value === 0 ? '0 s' : withUnit(value, SECONDS);
    case 'ns': return value === 0 ? '0 s' : withUnit(value / 1e9, SECONDS);
    case 'bytes': return withUnit(value, BYTES);
  }
  throw new Error(`format: no unit '${unit}'`);
}

// Lengths as people write them: 4096 -> 4K.
function formatLength(tokens) {
  for (const [scale, suffix] of [[2 ** 30, 'G'], [2 ** 20, 'M'], [2 ** 10, 'K']]) {
    if (tokens >= scale && tokens % scale === 0) return `${tokens / scale}${suffix}`;
  }
  return String(tokens);
}

function element(tag, properties = {}, children = []) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'class') made.className = value;
    else if (key === 'text') made.textContent = value;
    else if (key in made && key !== 'style') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function setNumber(target, key, value, unit) {
  target.dataset.key = key;
  target.dataset.value = value === null || value === undefined ? '' : String(value);
  target.dataset.unit = unit;
  target.textContent = format(value, unit);
  return target;
}

const number = (tag, key, value, unit) => setNumber(document.createElement(tag), key, value, unit);

function chip(colour) {
  const made = element('span', {class: 'chip'});
  made.style.background = colour;
  return made;
}

const themeColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const NUM_SERIES_COLOURS = 8;
const seriesVariable = (i) => `--s${i % NUM_SERIES_COLOURS}`;
const seriesColour = (i) => `var(${seriesVariable(i)})`;
