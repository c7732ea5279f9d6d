import type { GateValue } from '../../../apis/stream.ts';
import type { ConfigMapData } from './configmap.ts';
import {
  formatGate,
  GATE_ANNOTATIONS,
  type GateName,
  gateAfter,
  gateSetting,
  parseGate,
} from './feature-gate.ts';

export interface GateEvents {
  /**
   * Called at first, and after each change.
   * @param over seconds over which nodes follow if it is off; null: the usual time
   */
  changed(enabled: GateValue, over: number | null): void;
  /** Called if the ConfigMap has no valid value; the gate stays as it was, `enabled`. */
  problem(text: string, enabled: GateValue): void;
}

type Annotations = Readonly<Record<string, string>>;

/**
 * A feature gate of the cluster, from ConfigMap nodewall-config and from the Lease, which stores
 * the ConfigMap's last value.
 */
export class Gate {
  readonly #name: GateName;
  readonly #configured: boolean | null;
  readonly #events: GateEvents;
  /** Undefined: not read yet. */
  #data: ConfigMapData | null | undefined;
  /** The value in the Lease; undefined: not read yet. */
  #remembered: boolean | null | undefined;
  /** The last value set by the ConfigMap since this process started. */
  #stated: boolean | null = null;
  #enabled: GateValue | null = null;
  #over: number | null = null;

  constructor(name: GateName, configured: boolean | null, events: GateEvents) {
    this.#name = name;
    this.#configured = configured;
    this.#events = events;
  }

  /** Null until both objects were read. */
  get enabled(): GateValue | null {
    return this.#enabled;
  }

  /** The annotations for the Lease; none if no ConfigMap has set a value. */
  annotations(): Annotations {
    return this.#stated === null
      ? {}
      : { [GATE_ANNOTATIONS[this.#name]]: formatGate(this.#stated, this.#name) };
  }

  /** @param data null: the ConfigMap doesn't exist */
  setConfigMap(data: ConfigMapData | null): void {
    this.#data = data;
    this.#stated = gateSetting(data, this.#name).enabled ?? this.#stated;
    this.#decide();
  }

  /**
   * Takes the annotations of the Lease; null: it doesn't exist. Only the first call has an effect:
   * later annotations repeat what this process, or the leader, has read from the ConfigMap.
   */
  setAnnotations(annotations: Annotations | null): void {
    if (this.#remembered !== undefined) return;
    this.#remembered = parseGate(annotations?.[GATE_ANNOTATIONS[this.#name]], this.#name);
    if (this.#enabled === null) this.#decide();
  }

  #decide(): void {
    if (this.#data === undefined || this.#remembered === undefined) return;
    const before = this.#enabled;
    const sources = { before, stated: this.#remembered, configured: this.#configured };
    const { enabled, problem } = gateAfter(this.#data, sources, this.#name);
    if (problem !== null) this.#events.problem(problem, enabled);
    const { over, problem: mistake } = switchOffSetting(this.#data);
    if (mistake !== null) this.#events.problem(mistake, enabled);
    const isOtherTime = enabled === false && over !== this.#over;
    this.#enabled = enabled;
    this.#over = over;
    if (enabled !== before || isOtherTime) this.#events.changed(enabled, over);
  }
}

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
