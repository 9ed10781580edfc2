// Puts the page together.

const main = document.getElementById('main');
const contents = document.getElementById('contents');
const plans = DATA.plans;

function section(id, title) {
  const made = element('section', {id}, [element('h2', {text: title})]);
  main.append(made);
  contents.append(element('a', {href: `#${id}`, text: title}));
  return made;
}

const note = (text) => element('p', {class: 'note', text});

function tile(title, values) {
  const many = values.length > 1;
  return element('div', {class: many ? 'card tile many' : 'card tile'}, [
    element('div', {class: 'name', text: title}),
    ...values.map(({key, value, unit, colour}) => {
      const shown = number('span', key, value, unit);
      return element('div', {class: 'value'}, many ? [chip(colour), shown] : [shown]);
    }),
  ]);
}

const coloured = (make) => (item, i) => ({...make(item, i), colour: seriesColour(i)});

function addOverview() {
  const host = section('overview', 'Overview');
  const tiles = element('div', {class: 'tiles'});
  host.append(tiles);
  if (DATA.runs.length > 0) {
    tiles.append(tile('Strategy', DATA.runs.map(coloured((run, i) => ({key: `run.${i}.strategy`, value: run.strategy || null, unit: 'text'})))));
    tiles.append(tile('Ranks', DATA.runs.map(coloured((run, i) => ({key: `run.${i}.ranks`, value: run.ranks, unit: 'count'})))));
    for (const key of RUN_TILES) {
      const [, title, unit] = RUN_FIGURES.find((figure) => figure[0] === key);
      tiles.append(tile(title, DATA.runs.map(coloured((run, i) => ({key: `run.${i}.${key}`, value: run.summary[key], unit})))));
    }
    if (DATA.runs.length > 1) {
      host.append(element('div', {class: 'legend', style: 'margin-top: 8px'}, DATA.runs.map((run, i) => element('span', {}, [chip(seriesColour(i)), run.name]))));
    }
    DATA.runs.forEach((run) => run.notes.forEach((text) => host.append(note(`${run.name}: ${text}`))));
    return;
  }
  tiles.append(tile('Strategy', plans.map(coloured((plan, i) => ({key: `plan.${i}.strategy`, value: plan.strategy, unit: 'text'})))));
  for (const key of PLAN_TILES) {
    const [, title, unit] = PLAN_FIGURES.find((figure) => figure[0] === key);
    tiles.append(tile(title, plans.map(coloured((plan, i) => ({key: `plan.${i}.${key}`, value: plan[key], unit})))));
  }
}

// One row per figure, one column per run or plan; the best of a row in bold.
function comparison(columns, figures, valueOf, keyOf) {
  const head = element('tr', {}, [element('th'), ...columns.map((name, i) => element('th', {}, [chip(seriesColour(i)), ` ${name}`]))]);
  const body = figures.map(([key, title, unit, better]) => {
    const values = columns.map((unused, i) => valueOf(i, key));
    const known = values.filter((value) => typeof value === 'number');
    const best = better > 0 ? Math.max(...known) : Math.min(...known);
    const isTold = better !== 0 && new Set(known.map((value) => format(value, unit))).size > 1;
    return element('tr', {}, [element('td', {text: title}), ...values.map((value, i) => {
      const cell = number('td', keyOf(i, key), value, unit);
      if (isTold && value === best) cell.className = 'best';
      return cell;
    })]);
  });
  return element('div', {class: 'card scroll'}, [element('table', {class: 'numbers'}, [element('thead', {}, [head]), element('tbody', {}, body)])]);
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
    const stack = element('div', {class: 'stack', title: run.name});
    let total = 0;
    PHASES.forEach(([key, title], i) => {
      const value = run.summary[`${key}_mean`] || 0;
      const part = element('span', {title: `${title}: ${format(value, 's')}`});
      part.style.cssText = `width: ${100 * value / most}%; background: ${seriesColour(i)}`;
      total += value;
      stack.append(part);
    });
    host.append(element('div', {class: 'hint', text: `${run.name}, mean of all steps`}), stack);
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
  const host = section('plan', 'Plan map');
  const select = element('select', {'aria-label': 'plan shown'}, plans.map((plan, i) => element('option', {value: i, text: `${plan.name}: ${plan.strategy}, ${plan.ranks} ranks, ${format(plan.makespan_ns, 'ns')}`})));
  const back = element('button', {type: 'button', text: '‹', title: 'Previous plan'}), next = element('button', {type: 'button', text: '›', title: 'Next plan'});
  const whole = element('button', {type: 'button', text: 'Whole plan'});
  const [closer, farther] = [element('button', {type: 'button', text: '+', title: 'Zoom in'}), element('button', {type: 'button', text: '−', title: 'Zoom out'})];
  host.append(element('div', {class: 'row'}, [back, select, next, whole, closer, farther,
    element('span', {class: 'hint', text: 'Drag zooms to a box, Shift-drag moves. Click the map for the wheel (Shift: time only, Alt: ranks only) and the keys: arrows, +, −, 0.'})]));
  const legend = element('div', {class: 'legend'});
  const shared = element('span', {}, [...[0, 1, 2, 3, 4, 5].map((i) => chip(seriesColour(i))), 'shared sequences, a colour each']);
  legend.append(shared, element('span', {}, [element('span', {class: 'ramp'}), 'whole sequences: few to many tokens']),
    element('span', {}, [chip('var(--wait)'), 'waits for the slot’s slowest']), element('span', {}, [chip('var(--idle)'), 'idle']), element('span', {text: '┃ makespan'}), element('span', {text: '┊ lower bound'}));
  const mapHost = element('div', {class: 'card map'}), status = element('p', {class: 'hint', 'aria-live': 'polite', text: ' '});
  const notes = element('div'), below = element('div', {class: 'pair'});
  host.append(legend, notes, mapHost, status, below);
  const figures = section('plan-figures', plans.length > 1 ? 'Plans side by side' : 'Figures of the plan');
  figures.append(comparison(plans.map((plan) => plan.name), PLAN_FIGURES, (i, key) => plans[i][key], (i, key) => `plan.${i}.${key}.table`));
  planMap = new PlanMap(mapHost, status);
  const show = (i) => {
    const plan = plans[i];
    select.value = String(i);
    back.disabled = i === 0;
    next.disabled = i === plans.length - 1;
    notes.replaceChildren(...plan.notes.map(note));
    charts.filter((chart) => below.contains(chart.root)).forEach((chart) => { charts.splice(charts.indexOf(chart), 1); chart.destroy(); });
    below.replaceChildren(splitTable(plan, `plan.${i}`));
    rankChart(below, plan);
    planMap.show(plan);
  };
  select.addEventListener('change', () => show(Number(select.value)));
  back.addEventListener('click', () => show(Number(select.value) - 1));
  next.addEventListener('click', () => show(Number(select.value) + 1));
  whole.addEventListener('click', () => planMap.reset());
  closer.addEventListener('click', () => planMap.zoom(0.7, 0.5, 0.5));
  farther.addEventListener('click', () => planMap.zoom(1 / 0.7, 0.5, 0.5));
  show(0);
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
    if (planMap) planMap.requestDraw();
  };
  button.addEventListener('click', () => { choice = {system: 'light', light: 'dark', dark: 'system'}[choice]; apply(); });
  dark.addEventListener('change', apply);
  apply();
  return apply;
}

function build() {
  const names = DATA.runs.length > 0 ? DATA.runs.map((run) => run.name) : plans.map((plan) => plan.name);
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
  } else {
    section('plan', 'Plan map').append(element('p', {class: 'hint', text: 'No plan was saved with this run: train with --save-plans to see every step’s plan here.'}));
  }
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
