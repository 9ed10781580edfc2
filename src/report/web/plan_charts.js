// What one plan does to its ranks: where their time goes, and each rank's busy time; the lengths of the plans' sequences.

function planSplit(plan, keyPrefix) {
  const total = plan.ranks * plan.makespan_ns;
  const parts = SPLIT.filter(([key]) => plan.split[key] !== 0 || key === 'compute')
    .map(([key, title, colour]) => ({key, title, colour: `var(${colour})`, share: total > 0 ? plan.split[key] / total : null}));
  return splitCard('Where the ranks’ time goes', 'rank', parts, plan.makespan_ns, keyPrefix);
}

// Busy time and end of the last slot of every rank.
function busyChart(host, plan) {
  return rankChart(host, {
    title: 'Every rank’s busy time', largestFirst: 'busiest first', sortBy: plan.rank_busy, unit: 'ns',
    areas: [
      {label: 'idle until its last slot ends', tops: plan.rank_finish, told: (rank) => plan.rank_finish[rank] - plan.rank_busy[rank], stroke: '--s5', fill: '--wait'},
      {label: 'busy', tops: plan.rank_busy, told: (rank) => plan.rank_busy[rank], stroke: '--s0', fill: '--s0'},
    ],
    line: {label: 'makespan', value: plan.makespan_ns},
  });
}

function lengthTable(plans, keyPrefix) {
  const buckets = Math.max(...plans.map((plan) => plan.bucket_tokens.length));
  const sum = (column, k) => plans.reduce((total, plan) => total + (plan[column][k] || 0), 0);
  const rows = [];
  for (let k = 0; k < buckets; ++k) rows.push({k, sequences: sum('bucket_sequences', k), tokens: sum('bucket_tokens', k)});
  const used = rows.slice(rows.findIndex((row) => row.sequences > 0));
  const all = {sequences: used.reduce((t, r) => t + r.sequences, 0), tokens: used.reduce((t, r) => t + r.tokens, 0)};
  const most = {sequences: Math.max(...used.map((r) => r.sequences)) / all.sequences, tokens: Math.max(...used.map((r) => r.tokens)) / all.tokens};
  const body = used.map(({k, sequences, tokens}) => element('tr', {}, [
    element('td', {text: `${formatLength(2 ** k)} to <${formatLength(2 ** (k + 1))}`}),
    number('td', `${keyPrefix}.sequences.${k}`, sequences, 'count'), number('td', `${keyPrefix}.sequence_share.${k}`, sequences / all.sequences, 'share'),
    barCell(sequences / all.sequences / most.sequences, 'var(--s0)'),
    number('td', `${keyPrefix}.tokens.${k}`, tokens, 'tokens'), number('td', `${keyPrefix}.token_share.${k}`, tokens / all.tokens, 'share'),
    barCell(tokens / all.tokens / most.tokens, 'var(--s1)'),
  ]));
  return element('div', {class: 'card'}, [numberTable(['length', 'sequences', '', '', 'tokens', '', ''], body)]);
}
