import type { ConfigMapData } from './configmap.ts';

/** Key of ConfigMap nodewall-config: how nodes follow a gate that is turned off. */
export const SWITCH_OFF = 'switch-off';

/** Seconds; a day. */
const LONGEST = 86_400;

export interface SwitchOff {
  /** Seconds over which the nodes follow; 0: all at once. Null: the usual time. */
  readonly over: number | null;
  /** Why the value can't be used; null: it can, or there is none. */
  readonly problem: string | null;
}

/** Reads `now`, `usual`, or a number of seconds. */
export function switchOffSetting(data: ConfigMapData | null): SwitchOff {
  const text = data?.[SWITCH_OFF]?.trim();
  if (text === undefined || text === 'usual') return { over: null, problem: null };
  if (text === 'now') return { over: 0, problem: null };
  const seconds = /^\d{1,5}$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
  if (seconds <= LONGEST) return { over: seconds, problem: null };
  const valid = `must be now, usual, or a number of seconds up to ${LONGEST}`;
  return { over: null, problem: `ConfigMap nodewall-config: ${SWITCH_OFF}: ${valid}: ${text.slice(0, 40)}` };
}
