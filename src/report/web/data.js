// The report's data, and what the page calls its parts.

const DATA = JSON.parse(document.getElementById('report-data').textContent);

// Phases of a step: key, title.
const PHASES = [
  ['forward_s', 'forward'], ['backward_s', 'backward'], ['exchange_s', 'exchange (waited)'], ['reduce_s', 'gradient reduction'],
  ['optimizer_s', 'optimizer'], ['data_s', 'data'], ['plan_s', 'plan (waited)'],
];

// Curves: key, title, unit.
const CURVES = [
  ['loss', 'Loss (nats per target)', 'loss'], ['grad_norm', 'Gradient norm before clipping', 'ratio'],
  ['lr', 'Learning rate', 'lr'], ['tokens_per_s', 'Tokens per second', 'tokens/s'],
  ['mfu', 'Model FLOPs utilisation (MFU)', 'share'], ['step_s', 'Step time', 's'],
  ['peak_bytes', 'Peak memory of the fullest rank', 'bytes'], ['imbalance', 'Imbalance: slowest / mean rank', 'ratio'],
  ['gap', 'Plan: distance to the lower bound', 'share'], ['exchange_bytes', 'Exchange per step, all ranks', 'bytes'],
];

// Summary of a run: key, title, unit, what is better (-1 less, 1 more, 0 neither).
const RUN_FIGURES = [
  ['loss_last', 'Loss, last step', 'loss', -1], ['loss_first', 'Loss, first step', 'loss', 0],
  ['tokens_per_s_median', 'Tokens/s, median', 'tokens/s', 1], ['mfu_median', 'MFU, median', 'share', 1],
  ['step_s_median', 'Step time, median', 's', -1], ['predicted_s_median', 'Predicted step, median', 's', 0],
  ['imbalance_median', 'Imbalance, median', 'ratio', -1], ['gap_median', 'Plan gap, median', 'share', -1],
  ['exchange_bytes_mean', 'Exchange per step, mean', 'bytes', -1], ['peak_bytes_max', 'Peak memory, largest', 'bytes', -1],
  ['sharded_mean', 'Shared sequences per step, mean', 'count', 0], ['max_degree', 'Largest degree', 'count', 0],
  ['steps', 'Steps', 'count', 0], ['tokens_total', 'Tokens, all steps', 'tokens', 0], ['time_total_s', 'Time in steps', 's', 0],
  ['skipped_steps', 'Skipped steps', 'count', 0], ['dropped_sequences', 'Dropped sequences', 'count', 0],
];
// Those of them at the top of the page.
const RUN_TILES = ['loss_last', 'tokens_per_s_median', 'mfu_median', 'imbalance_median', 'exchange_bytes_mean', 'peak_bytes_max', 'steps'];

// Figures of a plan, likewise.
const PLAN_FIGURES = [
  ['makespan_ns', 'Makespan', 'ns', -1], ['bound_ns', 'Lower bound', 'ns', 0], ['gap', 'Gap of the plan', 'share', -1],
  ['imbalance', 'Imbalance', 'ratio', -1], ['idle_share', 'Idle', 'share', -1],
  ['exchange_bytes', 'K, V sent per forward', 'bytes', -1], ['shared', 'Shared sequences', 'count', 0],
  ['max_degree', 'Largest degree', 'count', 0], ['ranks', 'Ranks', 'count', 0], ['capacity', 'Capacity', 'tokens', 0],
  ['slots', 'Slots', 'count', 0], ['micro_batches', 'Micro-batches', 'count', 0], ['sequences', 'Sequences', 'count', 0],
  ['tokens', 'Tokens', 'tokens', 0],
];
const PLAN_TILES = ['makespan_ns', 'bound_ns', 'gap', 'imbalance', 'idle_share', 'exchange_bytes', 'ranks', 'shared'];

// Where the ranks' time goes: key, title, colour.
const SPLIT = [
  ['compute', 'compute', '--s2'], ['exposed_exchange', 'exchange that compute does not hide', '--s1'],
  ['exposed_copies', 'offload copies that compute does not hide', '--s6'],
  ['wait_in_slot', 'waiting for the slot’s slowest rank', '--s5'], ['wait_for_slot', 'waiting for the next slot’s ranks', '--s3'],
  ['after_last', 'nothing left to run', '--pack-high'],
];

// What a device does: title, colour of the map.
const ACTIVITIES = {
  forward: {title: 'forward', colour: '--s4'}, backward: {title: 'backward', colour: '--s0'},
  exchange: {title: 'exchange that compute does not hide', colour: '--s1'}, offload: {title: 'copies that compute does not hide', colour: '--s6'},
  wait_group: {title: 'wait for the group’s slowest', colour: '--wait'},
  reduce: {title: 'reduce gradients, gather weights', colour: '--s2'}, optimizer: {title: 'optimizer', colour: '--s7'},
};

// Where the devices' time goes in a Timeline, likewise.
const TIMELINE_SPLIT = [
  ['compute', 'compute', '--s0'], ['exposed_exchange', 'exchange that compute does not hide', '--s1'],
  ['exposed_offload', 'offload copies that compute does not hide', '--s6'],
  ['data_parallel_bubble', 'waiting for other ranks', '--s5'], ['pipeline_bubble', 'waiting for other stages', '--s3'],
  ['reduction', 'reducing gradients, gathering weights', '--s2'], ['optimizer', 'optimizer', '--s7'],
];

// What a Timeline sends, by link class: key, title, colour.
const LINK_BYTES = [
  ['node_exchange', 'K, V inside nodes', '--s0'], ['nic_exchange', 'K, V between nodes', '--s1'],
  ['node_reduction', 'gradients, weights inside nodes', '--s2'], ['nic_reduction', 'gradients, weights between nodes', '--s3'],
  ['host_copies', 'offload copies, both ways', '--s6'],
];

// Figures of a Timeline, likewise; those with a dot are members of "split" and "bytes".
const TIMELINE_FIGURES = [
  ['step_time_ns', 'Step time', 'ns', -1], ['tokens_per_s', 'Tokens/s', 'tokens/s', 1],
  ['micro_batches_time_ns', 'Until the last micro-batch ends', 'ns', -1], ['idle_share', 'Idle: waiting for ranks or stages', 'share', -1],
  ...TIMELINE_SPLIT.map(([key, title]) => [`split.${key}`, `Share of time: ${title}`, 'share', key === 'compute' ? 0 : -1]),
  ['sent_bytes', 'Sent, all devices', 'bytes', -1],
  ...LINK_BYTES.map(([key, title]) => [`bytes.${key}`, `Sent: ${title}`, 'bytes', -1]),
  ['peak_bytes_max', 'Peak memory, fullest rank', 'bytes', -1], ['peak_bytes_median', 'Peak memory, median rank', 'bytes', 0],
  ['peak_bytes_min', 'Peak memory, emptiest rank', 'bytes', 0],
  ['ranks', 'Ranks', 'count', 0], ['stages', 'Pipeline stages', 'count', 0], ['virtual_stages', 'Virtual stages a device', 'count', 0], ['tokens', 'Tokens', 'tokens', 0],
  ['cost', 'Cost', 'text', 0],
];
const TIMELINE_TILES = ['step_time_ns', 'tokens_per_s', 'idle_share', 'sent_bytes', 'peak_bytes_max', 'ranks', 'stages'];
