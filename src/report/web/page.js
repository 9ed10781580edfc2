// Puts the page together.

function addOverview() {
  const host = section('overview', 'Overview');
  const tiles = element('div', {class: 'tiles'});
  host.append(tiles);
  const [kind, items, figures, shown] = DATA.runs.length > 0 ? ['run', DATA.runs, RUN_FIGURES, RUN_TILES]
    : plans.length > 0 ? ['plan', plans, PLAN_FIGURES, PLAN_TILES] : ['timeline', timelines, TIMELINE_FIGURES, TIMELINE_TILES];
  tiles.append(tile('Strategy', items.map(coloured((item, i) => ({key: `${kind}.${i}.strategy`, value: item.strategy || null, unit: 'text'})))));
  if (kind === 'run') tiles.append(tile('Ranks', items.map(coloured((run, i) => ({key: `run.${i}.ranks`, value: run.ranks, unit: 'count'})))));
  for (const key of shown) {
    const [, title, unit] = figures.find((figure) => figure[0] === key);
    tiles.append(tile(title, items.map(coloured((item, i) => ({key: `${kind}.${i}.${key}`, value: kind === 'run' ? item.summary[key] : item[key], unit})))));
  }
  if (items.length > 1) {
    host.append(element('div', {class: 'legend', style: 'margin-top: 8px'}, items.map((item, i) => element('span', {}, [chip(seriesColour(i)), item.name]))));
  }
  DATA.runs.forEach((run) => run.notes.forEach((text) => host.append(note(`${run.name}: ${text}`))));
}

function addRunFigures() {
  const host = section('runs', DATA.runs.length > 1 ? 'Runs side by side' : 'Figures of the run');
  host.append(comparison(DATA.runs.map((run) => run.name), RUN_FIGURES, (i, key) => DATA.runs[i].summary[key], (i, key) => `run.${i}.${key}.table`));
}

function addPhases() {
  const host = section('phases', 'Where a step’s time goes');
  host.append(element('div', {class: 'legend'}, PHASES.map(([, title], i) => element('span', {}, [chip(seriesColour(i)), title]))));
  const most = Math.max(...DATA.runs.map((run) => PHASES.reduce((total, [key]) => total + (run.summary[`${key}_mean`] || 0), 0)));
  DATA.runs.forEach((run) => {
    const parts = PHASES.map(([key, title], i) => {
      const value = run.summary[`${key}_mean`] || 0;
      return {title: `${title}: ${format(value, 's')}`, value, colour: seriesColour(i)};
    });
    host.append(element('div', {class: 'hint', text: `${run.name}, mean of all steps`}), stackBar(parts, most, `Phases of ${run.name}; the table below has the numbers`));
  });
  const head = element('tr', {}, [element('th'), ...DATA.runs.map((run) => element('th', {text: run.name, colSpan: 2}))]);
  const rows = PHASES.map(([key, title], i) => element('tr', {}, [element('td', {}, [chip(seriesColour(i)), ` ${title}`]), ...DATA.runs.flatMap((run, r) => {
    const all = PHASES.reduce((total, [phase]) => total + (run.summary[`${phase}_mean`] || 0), 0), value = run.summary[`${key}_mean`];
    return [number('td', `run.${r}.${key}_mean`, value, 's'), number('td', `run.${r}.${key}_share`, all > 0 && value !== null ? value / all : null, 'share')];
  })]));
  host.append(element('div', {class: 'card scroll'}, [element('table', {class: 'numbers'}, [element('thead', {}, [head]), element('tbody', {}, rows)])]));
}

let planMap = null;

function addPlans() {
  const shared = element('span', {}, [...[0, 1, 2, 3, 4, 5].map((i) => chip(seriesColour(i))), 'shared sequences, a colour each']);
  planMap = mapSection(section('plan', 'Plan map'), {
    what: 'plan', rows: 'ranks', titles: plans.map((plan) => `${plan.name}: ${plan.strategy}, ${plan.ranks} ranks, ${format(plan.makespan_ns, 'ns')}`),
    legend: [shared, element('span', {}, [element('span', {class: 'ramp'}), 'whole sequences: few to many tokens']),
      element('span', {}, [chip('var(--wait)'), 'waits for the slot’s slowest']), element('span', {}, [chip('var(--idle)'), 'idle']), element('span', {text: '┃ makespan'}), element('span', {text: '┊ lower bound'})],
    makeMap: (host, status) => new PlanMap(host, status),
    show: (map, i, below) => {
      below.append(planSplit(plans[i], `plan.${i}`));
      busyChart(below, plans[i]);
      map.show(plans[i]);
      return plans[i].notes;
    },
  });
  const figures = section('plan-figures', plans.length > 1 ? 'Plans side by side' : 'Figures of the plan');
  figures.append(comparison(plans.map((plan) => plan.name), PLAN_FIGURES, (i, key) => plans[i][key], (i, key) => `plan.${i}.${key}.table`));
}

function addLengths() {
  const host = section('lengths', 'Lengths of the sequences');
  const seen = new Map();  // plans of other strategies for the same step hold the same sequences
  plans.forEach((plan) => seen.set(`${plan.step}/${plan.bucket_tokens}/${plan.bucket_sequences}`, plan));
  const used = [...seen.values()].filter((plan) => plan.sequences > 0);
  if (used.length === 0) return void host.append(element('p', {class: 'hint', text: 'The plans hold no sequence.'}));
  host.append(element('p', {class: 'hint', text: used.length === 1 ? `The ${format(used[0].sequences, 'count')} sequences of one step.` : `The sequences of the ${used.length} steps whose plans are here.`}), lengthTable(used, 'lengths'));
}

function addConfigs() {
  const host = section('configuration', 'Configuration');
  DATA.runs.forEach((run) => host.append(element('details', {class: 'card'}, [element('summary', {text: `${run.name}: ${run.folder}/config.toml`}), element('pre', {text: run.config})])));
}

function listenToTheme() {
  const button = document.getElementById('theme'), dark = matchMedia('(prefers-color-scheme: dark)');
  const wanted = new URLSearchParams(location.hash.replace(/^#/, '')).get('theme');
  let choice = wanted === 'dark' || wanted === 'light' ? wanted : 'system';
  const apply = () => {
    document.documentElement.dataset.theme = choice === 'system' ? (dark.matches ? 'dark' : 'light') : choice;
    button.textContent = `Theme: ${choice}`;
    charts.forEach((chart) => chart.redraw(false));
    maps.forEach((map) => map.requestDraw());
  };
  button.addEventListener('click', () => { choice = {system: 'light', light: 'dark', dark: 'system'}[choice]; apply(); });
  dark.addEventListener('change', apply);
  apply();
  return apply;
}

function build() {
  const names = [DATA.runs, plans, timelines].find((items) => items.length > 0).map((item) => item.name);
  document.getElementById('title').textContent = names.join(', ');
  const redraw = listenToTheme();
  addOverview();
  if (DATA.runs.length > 0) {
    addRunFigures();
    if (DATA.runs.some((run) => run.columns.step.length > 0)) {
      addCurves(section('curves', 'Curves'));
      addPhases();
    }
  }
  if (plans.length > 0) {
    addPlans();
    addLengths();
  } else if (DATA.runs.length > 0) {
    section('plan', 'Plan map').append(element('p', {class: 'hint', text: 'No plan was saved with this run: train with --save-plans to see every step’s plan here.'}));
  }
  if (timelines.length > 0) addTimelines();
  if (DATA.runs.some((run) => run.config !== '')) addConfigs();
  document.getElementById('foot').textContent = `Made by ${DATA.version}. Hover over a number’s chart for exact steps; all data stands in this file.`;
  redraw();
}

try {
  build();
  document.documentElement.dataset.state = 'ready';
} catch (error) {
  document.documentElement.dataset.state = 'failed';
  main.prepend(note(`This page could not be drawn: ${error.message}`));
  throw error;
}
