// Made by web/generate.py; do not edit.

/** What colour means: each kind of time on light and on dark pages. */
export const KINDS: Readonly<Record<string, { light: string; dark: string }>> = {
  "computation": {
    "light": "#0072b2",
    "dark": "#3d9bd6"
  },
  "communication": {
    "light": "#e69f00",
    "dark": "#f0b429"
  },
  "memory": {
    "light": "#009e73",
    "dark": "#2bbd92"
  },
  "data_loading": {
    "light": "#cc79a7",
    "dark": "#db92bb"
  },
  "runtime": {
    "light": "#56b4e9",
    "dark": "#7fc8f3"
  },
  "host": {
    "light": "#8a94a6",
    "dark": "#7d8798"
  },
  "waiting": {
    "light": "#d55e00",
    "dark": "#f0763a"
  },
  "idle": {
    "light": "#e8e9e7",
    "dark": "#2b2f35"
  }
};

/** What bytes of memory are held for. */
export const CATEGORIES: Readonly<Record<string, { light: string; dark: string }>> = {
  "parameter": {
    "light": "#3f9b63",
    "dark": "#67be88"
  },
  "gradient": {
    "light": "#3b6fb6",
    "dark": "#6f9ddb"
  },
  "optimizer_state": {
    "light": "#8a5fb0",
    "dark": "#b08fd6"
  },
  "activation": {
    "light": "#b5495b",
    "dark": "#dd7f90"
  },
  "temporary": {
    "light": "#d9792b",
    "dark": "#e89a55"
  },
  "workspace": {
    "light": "#2a9aa8",
    "dark": "#57bfcb"
  },
  "collective_buffer": {
    "light": "#e69f00",
    "dark": "#f0b429"
  },
  "input": {
    "light": "#cc79a7",
    "dark": "#db92bb"
  },
  "kv_cache": {
    "light": "#56b4e9",
    "dark": "#7fc8f3"
  },
  "graph_pool": {
    "light": "#7a6a4f",
    "dark": "#ab9a7c"
  },
  "unknown": {
    "light": "#8a94a6",
    "dark": "#7d8798"
  }
};

/** What belongs to one of several owners: told apart, with no meaning of their own. */
export const OWNERS: readonly { light: string; dark: string }[] = [
  {
    "light": "#3b6fb6",
    "dark": "#6f9ddb"
  },
  {
    "light": "#d9792b",
    "dark": "#e89a55"
  },
  {
    "light": "#3f9b63",
    "dark": "#67be88"
  },
  {
    "light": "#8a5fb0",
    "dark": "#b08fd6"
  },
  {
    "light": "#b5495b",
    "dark": "#dd7f90"
  },
  {
    "light": "#2a9aa8",
    "dark": "#57bfcb"
  }
];

/** Names of columns and categories that stand for a kind. */
export const MEANS: Readonly<Record<string, string>> = {
  "at_limit": "computation",
  "at_stake_high": "waiting",
  "at_stake_low": "waiting",
  "backward": "runtime",
  "below_bandwidth": "waiting",
  "below_peak": "waiting",
  "collective": "communication",
  "compute": "computation",
  "copy": "memory",
  "cpu": "host",
  "cpu_exec": "host",
  "data": "data_loading",
  "dataloader": "data_loading",
  "device_between": "memory",
  "device_busy": "computation",
  "device_idle": "idle",
  "driver": "runtime",
  "exposed_communication": "communication",
  "exposed_memory": "memory",
  "exposed_waiting": "waiting",
  "forward": "computation",
  "fusable": "waiting",
  "gap": "waiting",
  "headroom": "waiting",
  "host_ops": "host",
  "kernel": "computation",
  "links": "waiting",
  "memcpy": "memory",
  "memset": "memory",
  "optimizer": "memory",
  "other": "idle",
  "other_host": "host",
  "other_host_ops": "host",
  "overlap": "communication",
  "rest": "idle",
  "runtime_calls": "runtime",
  "small_kernels": "waiting",
  "uncovered": "idle",
  "unfilled": "waiting",
  "unfused_attention": "waiting"
};
