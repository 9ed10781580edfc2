// A Timeline as a map: a row per device, which is a stage of a rank; time to the right, coloured by what the device does.

// Start and end of every event: the data holds each as the time since what was before it.
function eventsOf(timeline) {
  const count = timeline.event_ns.length, starts = new Float64Array(count), ends = new Float64Array(count);
  for (let device = 0; device + 1 < timeline.first_event.length; ++device) {
    let time = 0;
    for (let e = timeline.first_event[device]; e < timeline.first_event[device + 1]; ++e) {
      starts[e] = time + timeline.event_gap[e];
      time = ends[e] = starts[e] + timeline.event_ns[e];
    }
  }
  return {starts, ends};
}

class TimelineMap extends RowMap {
  constructor(host, status) {
    super(host, status, 'Timeline: devices');
    this.byStage = true;
  }

  show(timeline) {
    this.timeline = timeline;
    this.events = eventsOf(timeline);
    this.showRows(timeline.ranks * timeline.stages, timeline.step_time_ns);
  }

  orderRows(byStage) {
    this.byStage = byStage;
    this.reset();
  }

  placeOf(row) {
    const {ranks, stages} = this.timeline;
    return this.byStage ? {rank: row % ranks, stage: Math.floor(row / ranks)} : {rank: Math.floor(row / stages), stage: row % stages};
  }

  rowLabel(row) {
    const {rank, stage} = this.placeOf(row);
    if (this.timeline.stages === 1) return rank === 0 ? 'rank 0' : String(rank);
    return this.byStage ? `s${stage} r${rank}` : `r${rank} s${stage}`;
  }

  marks() {
    return [[this.timeline.step_time_ns, []], [this.timeline.micro_batches_time_ns, [5, 4]]];
  }

  makePalette() {
    const colours = this.timeline.activities.map((activity) => packed(rgbOf(ACTIVITIES[activity].colour)));
    const {event_activity: activity} = this.timeline;
    return {idle: packed(rgbOf('--idle')), ofEvent: (e) => colours[activity.charCodeAt(e) - 48]};
  }

  // The events of a row's device, and the first of them that ends after a time.
  eventsFrom(row, time) {
    const {rank, stage} = this.placeOf(row), device = rank * this.timeline.stages + stage;
    const begin = this.timeline.first_event[device], end = this.timeline.first_event[device + 1];
    let low = begin, high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events.ends[middle] > time) high = middle;
      else low = middle + 1;
    }
    return {begin, first: low, end};
  }

  // What lasts less than a pixel is seen where it covers the border of two: shown time stays in proportion.
  paintRow(row, pixels, scale) {
    const {view, palette, events: {starts, ends}} = this, {first, end} = this.eventsFrom(row, view.t0);
    for (let e = first; e < end && starts[e] < view.t1; ++e) {
      pixels.fill(palette.ofEvent(e), Math.max(0, Math.round((starts[e] - view.t0) * scale)), Math.round((ends[e] - view.t0) * scale));
    }
  }

  nameOf(event) {
    const slot = this.timeline.event_slot[event];
    return ACTIVITIES[this.timeline.activities[Number(this.timeline.event_activity[event])]].title + (slot < 0 ? '' : ` of slot ${slot}`);
  }

  describe({row, time}) {
    const {timeline, events: {starts, ends}} = this, {rank, stage} = this.placeOf(row), {begin, first, end} = this.eventsFrom(row, time);
    const who = timeline.stages > 1 ? `rank ${rank}, stage ${stage}` : `rank ${rank}`;
    const lasts = (from, to) => `${format(from, 'ns')} to ${format(to, 'ns')}: ${format(to - from, 'ns')}`;
    if (first < end && starts[first] <= time) {
      const lines = [`${who}: ${this.nameOf(first)}`, lasts(starts[first], ends[first])];
      if (timeline.event_micro_batch[first] >= 0) lines.push(`micro-batch ${timeline.event_micro_batch[first]} of the rank${timeline.virtual_stages > 1 ? `, chunk ${timeline.event_chunk[first]} of the device` : ''}`);
      return {lines, shared: null};
    }
    if (time > timeline.step_time_ns) return {lines: [`${who}: after the step`], shared: null};
    const from = first > begin ? ends[first - 1] : 0, to = first < end ? starts[first] : timeline.step_time_ns;
    return {lines: [`${who}: idle`, lasts(from, to), first < end ? `then ${this.nameOf(first)}` : 'then nothing more'], shared: null};
  }
}
