// Cards that a plan and a Timeline have in common: shares of a whole, and a value of every rank.

// Parts of a whole side by side: [{title, value, colour}].
function stackBar(parts, whole, label) {
  const stack = element('div', {class: 'stack', role: 'img', 'aria-label': label});
  for (const {title, value, colour} of parts) {
    const part = element('span', {title});
    part.style.cssText = `width: ${whole > 0 ? 100 * Math.max(0, value) / whole : 0}%; background: ${colour}`;
    stack.append(part);
  }
  return stack;
}

function numberTable(heads, rows) {
  const head = element('thead', {}, [element('tr', {}, heads.map((text) => element('th', {text})))]);
  return element('div', {class: 'scroll'}, [element('table', {class: 'numbers'}, [head, element('tbody', {}, rows)])]);
}

function barCell(share, colour) {
  const inside = element('span');
  inside.style.cssText = `width: ${share > 0 ? Math.max(0.5, 100 * share) : 0}%; background: ${colour}; min-width: ${share > 0 ? 1 : 0}px`;
  return element('td', {class: 'bar'}, [inside]);
}

// Where the time of `each` (a rank, a device) goes: parts [{key, title, colour, share}] of wholeNs.
function splitCard(title, each, parts, wholeNs, keyPrefix) {
  const stack = stackBar(parts.map(({title: text, share, colour}) => ({title: `${text}: ${format(share, 'share')}`, value: share || 0, colour})), 1, `${title}; the table below has the numbers`);
  const rows = parts.map(({key, title: text, colour, share}) => element('tr', {}, [
    element('td', {}, [chip(colour), ` ${text}`]),
    number('td', `${keyPrefix}.split.${key}`, share, 'share'),
    number('td', `${keyPrefix}.split_ns.${key}`, share === null ? null : share * wholeNs, 'ns'),
  ]));
  return element('div', {class: 'card'}, [element('h3', {text: title}), stack, numberTable(['', `of all ${each}s’ time`, `per ${each}`], rows)]);
}

// A value of every rank as steps, in rank order or the largest `sortBy` first. Each of areas [{label, tops, told, stroke,
// fill}] is drawn over the one before it, `told` being what its legend says; `line` {label, value} crosses all ranks.
function rankChart(host, {title, largestFirst, sortBy, unit, areas, line}) {
  const order = element('select', {'aria-label': 'order of ranks'}, [element('option', {value: 'rank', text: 'in rank order'}), element('option', {value: 'largest', text: largestFirst})]);
  const card = element('div', {class: 'card'}, [element('h3', {text: title}), element('div', {class: 'row'}, [order])]);
  host.append(card);
  const inAxisUnit = (value) => (unit === 'ns' ? value / 1e9 : value);
  let ranks = sortBy.map((unused, rank) => rank);
  const data = () => [[...ranks.keys()], ...areas.map((area) => ranks.map((r) => inAxisUnit(area.tops[r]))), ranks.map(() => inAxisUnit(line.value))];
  const steps = uPlot.paths.stepped({align: 1});
  const plot = addChart(card, {
    height: 240, scales: {x: {time: false}, y: {range: (u, low, high) => [0, (high || 1) * 1.05]}},
    axes: [axis((at) => (Number.isInteger(at) ? String(at) : ''), 32), valueAxis(unit === 'ns' ? 's' : unit)],
    series: [
      {label: 'rank', value: (u, at) => (at === null ? '–' : String(ranks[at]))},
      ...areas.map(({label, told, stroke, fill}) => ({label, paths: steps, stroke: () => themeColour(stroke), fill: () => themeColour(fill), width: 1, points: {show: false},
        value: (u, v, s, at) => (at === null || at === undefined ? '–' : format(told(ranks[at]), unit))})),
      {label: line.label, stroke: () => themeColour('--text'), width: 1, dash: [5, 4], points: {show: false}, value: () => format(line.value, unit)},
    ],
    cursor: {drag: {x: true, y: false}},
  }, data());
  order.addEventListener('change', () => {
    ranks = sortBy.map((unused, rank) => rank);
    if (order.value === 'largest') ranks.sort((a, b) => sortBy[b] - sortBy[a] || a - b);
    plot.setData(data());
  });
  return plot;
}
