// What one plan does to its ranks: where their time goes, and each rank's busy time.

function splitTable(plan, keyPrefix) {
  const total = plan.ranks * plan.makespan_ns;
  const stack = element('div', {class: 'stack', role: 'img', 'aria-label': 'Where the ranks’ time goes; the table below has the numbers'});
  const body = element('tbody');
  for (const [key, title, colour] of SPLIT) {
    const value = plan.split[key];
    if (value === 0 && key !== 'compute') continue;
    const part = element('span', {title});
    part.style.cssText = `flex: ${Math.max(0, value)} 0 0; background: var(${colour})`;
    stack.append(part);
    body.append(element('tr', {}, [
      element('td', {}, [chip(`var(${colour})`), ` ${title}`]),
      number('td', `${keyPrefix}.split.${key}`, total > 0 ? value / total : null, 'share'),
      number('td', `${keyPrefix}.split_ns.${key}`, plan.ranks > 0 ? value / plan.ranks : null, 'ns'),
    ]));
  }
  const head = element('thead', {}, [element('tr', {}, ['', 'of all ranks’ time', 'per rank'].map((text) => element('th', {text})))]);
  return element('div', {class: 'card'}, [element('h3', {text: 'Where the ranks’ time goes'}), stack, element('div', {class: 'scroll'}, [element('table', {class: 'numbers'}, [head, body])])]);
}

// Busy time and end of the last slot of every rank.
function rankChart(host, plan) {
  const order = element('select', {'aria-label': 'order of ranks'}, [element('option', {value: 'rank', text: 'in rank order'}), element('option', {value: 'busy', text: 'busiest first'})]);
  const card = element('div', {class: 'card'}, [element('h3', {text: 'Every rank’s busy time'}), element('div', {class: 'row'}, [order])]);
  host.append(card);
  let ranks = plan.rank_busy.map((unused, rank) => rank);
  const data = () => [[...ranks.keys()], ranks.map((r) => plan.rank_finish[r] / 1e9), ranks.map((r) => plan.rank_busy[r] / 1e9), ranks.map(() => plan.makespan_ns / 1e9)];
  const steps = uPlot.paths.stepped({align: 1});
  const plot = addChart(card, {
    height: 240, scales: {x: {time: false}, y: {range: (u, low, high) => [0, (high || 1) * 1.05]}},
    axes: [axis((at) => (Number.isInteger(at) ? String(at) : ''), 32), axis(tickText('s'), 70)],
    series: [
      {label: 'rank', value: (u, at) => (at === null ? '–' : String(ranks[at]))},
      {label: 'idle until its last slot ends', paths: steps, stroke: () => themeColour('--s5'), fill: () => themeColour('--wait'), width: 1, points: {show: false}, value: (u, v, s, at) => (at === null ? '–' : format(plan.rank_finish[ranks[at]] - plan.rank_busy[ranks[at]], 'ns'))},
      {label: 'busy', paths: steps, stroke: () => themeColour('--s0'), fill: () => themeColour('--s0'), width: 1, points: {show: false}, value: (u, v, s, at) => (at === null ? '–' : format(plan.rank_busy[ranks[at]], 'ns'))},
      {label: 'makespan', stroke: () => themeColour('--text'), width: 1, dash: [5, 4], points: {show: false}, value: () => format(plan.makespan_ns, 'ns')},
    ],
    cursor: {drag: {x: true, y: false}},
  }, data());
  order.addEventListener('change', () => {
    ranks = plan.rank_busy.map((unused, rank) => rank);
    if (order.value === 'busy') ranks.sort((a, b) => plan.rank_busy[b] - plan.rank_busy[a] || a - b);
    plot.setData(data());
  });
  return plot;
}

function lengthTable(plans, keyPrefix) {
  const buckets = Math.max(...plans.map((plan) => plan.bucket_tokens.length));
  const sum = (column, k) => plans.reduce((total, plan) => total + (plan[column][k] || 0), 0);
  const rows = [];
  for (let k = 0; k < buckets; ++k) rows.push({k, sequences: sum('bucket_sequences', k), tokens: sum('bucket_tokens', k)});
  const used = rows.slice(rows.findIndex((row) => row.sequences > 0));
  const all = {sequences: used.reduce((t, r) => t + r.sequences, 0), tokens: used.reduce((t, r) => t + r.tokens, 0)};
  const bar = (share, most, colour) => {
    const inside = element('span');
    inside.style.cssText = `width: ${share > 0 ? Math.max(0.5, 100 * share / most) : 0}%; background: ${colour}; min-width: ${share > 0 ? 1 : 0}px`;
    return element('td', {class: 'bar'}, [inside]);
  };
  const most = {sequences: Math.max(...used.map((r) => r.sequences)) / all.sequences, tokens: Math.max(...used.map((r) => r.tokens)) / all.tokens};
  const body = element('tbody', {}, used.map(({k, sequences, tokens}) => element('tr', {}, [
    element('td', {text: `${formatLength(2 ** k)} to <${formatLength(2 ** (k + 1))}`}),
    number('td', `${keyPrefix}.sequences.${k}`, sequences, 'count'), number('td', `${keyPrefix}.sequence_share.${k}`, sequences / all.sequences, 'share'),
    bar(sequences / all.sequences, most.sequences, 'var(--s0)'),
    number('td', `${keyPrefix}.tokens.${k}`, tokens, 'tokens'), number('td', `${keyPrefix}.token_share.${k}`, tokens / all.tokens, 'share'),
    bar(tokens / all.tokens, most.tokens, 'var(--s1)'),
  ])));
  const head = element('thead', {}, [element('tr', {}, ['length', 'sequences', '', '', 'tokens', '', ''].map((text) => element('th', {text})))]);
  return element('div', {class: 'card scroll'}, [element('table', {class: 'numbers'}, [head, body])]);
}
