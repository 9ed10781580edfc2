// Simulated steps: each as a map, its split, bytes and memory, and several side by side.

const partsOf = (timeline) => TIMELINE_SPLIT.map(([key, title, colour]) => ({key, title, colour: `var(${colour})`, share: timeline.split[key]}));

function linkCard(timeline, keyPrefix) {
  const most = Math.max(...LINK_BYTES.map(([key]) => timeline.bytes[key]));
  const rows = LINK_BYTES.map(([key, title, colour]) => element('tr', {}, [
    element('td', {}, [chip(`var(${colour})`), ` ${title}`]),
    number('td', `${keyPrefix}.bytes.${key}`, timeline.bytes[key], 'bytes'),
    number('td', `${keyPrefix}.bytes_per_device.${key}`, timeline.bytes[key] / (timeline.ranks * timeline.stages), 'bytes'),
    barCell(most > 0 ? timeline.bytes[key] / most : 0, `var(${colour})`),
  ]));
  return element('div', {class: 'card'}, [element('h3', {text: 'What the links carry in the step'}), numberTable(['', 'all devices', 'per device', ''], rows)]);
}

function memoryChart(host, timeline) {
  const plot = rankChart(host, {
    title: 'Peak memory of every rank’s fullest device', largestFirst: 'fullest first', sortBy: timeline.peak_bytes, unit: 'bytes',
    areas: [{label: 'peak', tops: timeline.peak_bytes, told: (rank) => timeline.peak_bytes[rank], stroke: '--s0', fill: '--s0'}],
    line: {label: 'median', value: timeline.peak_bytes_median},
  });
  plot.root.closest('.card').style.gridColumn = '1 / -1';
}

// The splits of several Timelines, as long as their steps.
function splitBars() {
  const longest = Math.max(...timelines.map((timeline) => timeline.step_time_ns));
  const bars = timelines.flatMap((timeline) => [
    element('div', {class: 'hint', text: `${timeline.name}: ${timeline.strategy}, ${format(timeline.step_time_ns, 'ns')}`}),
    stackBar(partsOf(timeline).map(({title, share, colour}) => ({title: `${title}: ${format(share, 'share')}`, value: share * timeline.step_time_ns, colour})), longest, `Split of ${timeline.name}; the table below has the numbers`),
  ]);
  return element('div', {class: 'card', style: 'margin-bottom: 10px'}, [...bars,
    element('div', {class: 'legend'}, TIMELINE_SPLIT.map(([, title, colour]) => element('span', {}, [chip(`var(${colour})`), title])))]);
}

// What keeps Timelines from being compared figure by figure.
function comparisonNotes() {
  const differ = (key) => new Set(timelines.map((timeline) => timeline[key])).size > 1;
  const notes = [];
  if (differ('tokens')) notes.push('The steps do not hold the same number of tokens: compare tokens/s, not step times or bytes.');
  if (differ('cost')) notes.push('The Timelines were simulated under different costs: model or hardware differ, not only the plan.');
  return notes;
}

let timelineMap = null;

function addTimelines() {
  const order = element('select', {'aria-label': 'order of rows'}, [element('option', {value: 'stage', text: 'stage by stage'}), element('option', {value: 'rank', text: 'rank by rank'})]);
  timelineMap = mapSection(section('timeline', 'Timeline'), {
    what: 'Timeline', rows: 'devices', more: [order],
    titles: timelines.map((timeline) => `${timeline.name}: ${timeline.strategy}, ${timeline.ranks} rank${timeline.ranks > 1 ? 's' : ''}${timeline.stages > 1 ? ` of ${timeline.stages} stages` : ''}${timeline.virtual_stages > 1 ? ` x ${timeline.virtual_stages} chunks` : ''}, ${format(timeline.step_time_ns, 'ns')}`),
    legend: [...Object.values(ACTIVITIES).map(({title, colour}) => element('span', {}, [chip(`var(${colour})`), title])),
      element('span', {}, [chip('var(--idle)'), 'idle']), element('span', {text: '┃ end of the step'}), element('span', {text: '┊ end of the last micro-batch'})],
    makeMap: (host, status) => new TimelineMap(host, status),
    show: (map, i, below) => {
      const timeline = timelines[i], prefix = `timeline.${i}`;
      order.hidden = timeline.stages === 1;
      below.append(splitCard('Where the devices’ time goes', 'device', partsOf(timeline), timeline.step_time_ns, prefix), linkCard(timeline, prefix));
      if (timeline.ranks > 1) memoryChart(below, timeline);  // steps need two
      map.show(timeline);
      return [];
    },
  });
  order.addEventListener('change', () => timelineMap.orderRows(order.value === 'stage'));
  const figures = section('timeline-figures', timelines.length > 1 ? 'Timelines side by side' : 'Figures of the Timeline');
  if (timelines.length > 1) figures.append(...comparisonNotes().map(note), splitBars());
  const valueOf = (i, key) => key.split('.').reduce((from, part) => from[part], timelines[i]);
  figures.append(comparison(timelines.map((timeline) => timeline.name), [['strategy', 'Strategy', 'text', 0], ...TIMELINE_FIGURES], valueOf, (i, key) => `timeline.${i}.${key}.table`));
}
