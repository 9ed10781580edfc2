// What the page's sections are made of.

const main = document.getElementById('main');
const contents = document.getElementById('contents');
const {plans, timelines} = DATA;
const maps = [];  // for redrawing in another theme

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

// One row per figure, one column per run, plan or Timeline; the best of a row in bold, and what reads the same.
function comparison(columns, figures, valueOf, keyOf) {
  const head = element('tr', {}, [element('th'), ...columns.map((name, i) => element('th', {}, [chip(seriesColour(i)), ` ${name}`]))]);
  const body = figures.map(([key, title, unit, better]) => {
    const values = columns.map((unused, i) => valueOf(i, key));
    const known = values.filter((value) => typeof value === 'number');
    const best = better > 0 ? Math.max(...known) : Math.min(...known);
    const isTold = better !== 0 && new Set(known.map((value) => format(value, unit))).size > 1;
    return element('tr', {}, [element('td', {text: title}), ...values.map((value, i) => {
      const cell = number('td', keyOf(i, key), value, unit);
      if (isTold && format(value, unit) === format(best, unit)) cell.className = 'best';
      return cell;
    })]);
  });
  return element('div', {class: 'card scroll'}, [element('table', {class: 'numbers'}, [element('thead', {}, [head]), element('tbody', {}, body)])]);
}

// One of several plans or Timelines as a map, with the controls that choose and zoom. makeMap(host, status) makes it;
// show(map, i, below) shows item i there and fills what lies under it.
function mapSection(host, {what, rows, titles, more = [], legend, makeMap, show}) {
  const select = element('select', {'aria-label': `${what} shown`}, titles.map((text, i) => element('option', {value: i, text})));
  const button = (text, title) => element('button', {type: 'button', text, title});
  const back = button('‹', `Previous ${what}`), next = button('›', `Next ${what}`);
  const whole = button(`Whole ${what}`, ''), closer = button('+', 'Zoom in'), farther = button('−', 'Zoom out');
  host.append(element('div', {class: 'row'}, [back, select, next, ...more, whole, closer, farther,
    element('span', {class: 'hint', text: `Drag zooms to a box, Shift-drag moves. Click the map for the wheel (Shift: time only, Alt: ${rows} only) and the keys: arrows, +, −, 0.`})]));
  const mapHost = element('div', {class: 'card map'}), status = element('p', {class: 'hint', 'aria-live': 'polite', text: ' '});
  const notes = element('div'), below = element('div', {class: 'pair'});
  host.append(element('div', {class: 'legend'}, legend), notes, mapHost, status, below);
  const map = makeMap(mapHost, status);
  maps.push(map);
  const showItem = (i) => {
    select.value = String(i);
    back.disabled = i === 0;
    next.disabled = i === titles.length - 1;
    charts.filter((chart) => below.contains(chart.root)).forEach((chart) => { charts.splice(charts.indexOf(chart), 1); chart.destroy(); });
    below.replaceChildren();
    notes.replaceChildren(...show(map, i, below).map(note));
  };
  select.addEventListener('change', () => showItem(Number(select.value)));
  back.addEventListener('click', () => showItem(Number(select.value) - 1));
  next.addEventListener('click', () => showItem(Number(select.value) + 1));
  whole.addEventListener('click', () => map.reset());
  closer.addEventListener('click', () => map.zoom(0.7, 0.5, 0.5));
  farther.addEventListener('click', () => map.zoom(1 / 0.7, 0.5, 0.5));
  showItem(0);
  return map;
}
