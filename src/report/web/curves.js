// Curves over steps: one chart per metric, a line per run, one cursor and one zoom for all.

const charts = [];  // every uPlot of the page, for redrawing in another theme or width

function axis(format_, size) {
  return {
    stroke: () => themeColour('--muted'), grid: {stroke: () => themeColour('--grid'), width: 1},
    ticks: {stroke: () => themeColour('--line'), width: 1}, size, font: '12px system-ui, sans-serif',
    values: (u, ticks) => ticks.map((tick) => (tick === null ? '' : format_(tick))),
  };
}

function addChart(host, options, data) {
  const plot = new uPlot({width: Math.max(280, host.clientWidth - 24), height: 210, ...options}, data, host);
  charts.push(plot);
  new ResizeObserver(() => {
    const width = Math.max(280, host.clientWidth - 24);
    if (width !== plot.width) plot.setSize({width, height: plot.height});
  }).observe(host);
  return plot;
}

// Ticks need fewer digits than values.
function tickText(unit) {
  return (value) => {
    if (unit === 'lr') return value === 0 ? '0' : value.toExponential(1);
    if (unit === 'share') return `${+(100 * value).toPrecision(4)} %`;
    if (unit === 'tokens/s') return grouped(value, 2);
    if (unit === 's' || unit === 'bytes') return format(value, unit).replace(/(\.\d*?)0+ /, '$1 ').replace('. ', ' ');
    return String(+value.toPrecision(5));
  };
}

// Steps between ticks of bytes are powers of two.
const byteSteps = [...Array(60).keys()].map((power) => 2 ** power);
const valueAxis = (unit) => ({...axis(tickText(unit), unit === 'tokens/s' || unit === 'bytes' ? 78 : 66), ...(unit === 'bytes' ? {incrs: byteSteps} : {})});
const stepAxis = () => axis((step) => (Number.isInteger(step) ? String(step) : ''), 32);
const lineWidth = 1.6;
const dashOfRun = (i) => (i < NUM_SERIES_COLOURS ? undefined : [6, 4]);

// Steps of all runs, and each run's values at them; null where a run has none.
function alignRuns(key) {
  const steps = [...new Set(DATA.runs.flatMap((run) => run.columns.step))].sort((a, b) => a - b);
  const place = new Map(steps.map((step, i) => [step, i]));
  const values = DATA.runs.map((run) => {
    const aligned = new Array(steps.length).fill(undefined);
    run.columns.step.forEach((step, i) => { aligned[place.get(step)] = run.columns[key][i]; });
    return aligned;
  });
  return [steps, ...values];
}

function curveChart(host, [key, title, unit]) {
  const card = element('div', {class: 'card'}, [element('h3', {text: title})]);
  host.append(card);
  const lines = DATA.runs.map((run, i) => ({
    label: run.name, stroke: () => themeColour(seriesVariable(i)), width: lineWidth, dash: dashOfRun(i),
    value: (u, value) => format(value, unit), points: {size: 4, show: DATA.runs[i].columns.step.length <= 60},
  }));
  return addChart(card, {
    scales: {x: {time: false}}, axes: [stepAxis(), valueAxis(unit)],
    series: [{label: 'step', value: (u, step) => (step === null ? '–' : String(step))}, ...lines],
    cursor: {sync: {key: 'steps'}, drag: {x: true, y: false}},
  }, alignRuns(key));
}

// Phases of one run, stacked: they add up to the step's time.
function phaseChart(host, run) {
  const card = element('div', {class: 'card'}, [element('h3', {text: `Step time by phase: ${run.name}`})]);
  host.append(card);
  const sums = new Array(run.columns.step.length).fill(0);
  const stacked = PHASES.map(([key]) => run.columns[key].map((value, i) => { sums[i] += value || 0; return sums[i]; }));
  const series = PHASES.map(([key, title], i) => ({
    label: title, stroke: () => themeColour(seriesVariable(i)), fill: () => themeColour(seriesVariable(i)), width: 1, points: {show: false},
    value: (u, value, s, at) => format(at === null || at === undefined ? null : run.columns[key][at], 's'),
  })).reverse();
  const bands = PHASES.slice(1).map((unused, i) => ({series: [i + 1, i + 2]}));
  return addChart(card, {
    scales: {x: {time: false}, y: {range: (u, low, high) => [0, (high || 1) * 1.05]}}, axes: [stepAxis(), axis(tickText('s'), 66)], bands,
    series: [{label: 'step', value: (u, step) => (step === null ? '–' : String(step))}, ...series],
    cursor: {sync: {key: 'steps'}, drag: {x: true, y: false}},
  }, [run.columns.step, ...stacked.reverse()]);
}

function addCurves(section) {
  const runs = DATA.runs.map((run) => run.columns.step).filter((steps) => steps.length > 0);
  const least = Math.min(...runs.map((steps) => steps[0])), most = Math.max(...runs.map((steps) => steps[steps.length - 1]));
  const from = element('input', {type: 'number', min: least, max: most, value: least, 'aria-label': 'first step shown'});
  const to = element('input', {type: 'number', min: least, max: most, value: most, 'aria-label': 'last step shown'});
  const reset = element('button', {type: 'button', text: 'All steps'});
  section.append(element('div', {class: 'row'}, [
    'Steps', from, 'to', to, reset,
    element('span', {class: 'hint', text: 'Drag in a chart to zoom all of them, double-click to see all steps; a click on a name hides its line.'}),
  ]));
  const grid = element('div', {class: 'charts'});
  section.append(grid);
  const plots = CURVES.map((curve) => curveChart(grid, curve));
  DATA.runs.forEach((run) => plots.push(phaseChart(grid, run)));
  const show = (low, high) => plots.forEach((plot) => plot.setScale('x', {min: low, max: high > low ? high : low + 1}));
  const showInputs = () => { if (from.value !== '' && to.value !== '') show(Number(from.value), Number(to.value)); };
  from.addEventListener('change', showInputs);
  to.addEventListener('change', showInputs);
  reset.addEventListener('click', () => { from.value = least; to.value = most; show(least, most); });
}
