import type { Config } from '../../../apis/config.ts';
import { parseConfig } from '../../../apis/config-file.ts';
import type { GateValue } from '../../../apis/stream.ts';
import { formatProblem } from '../../../apis/validate/problem.ts';
import type { ConfigMapData } from './configmap.ts';

export type GateName = keyof Config['featureGates'];

/** A gate in ConfigMap nodewall-config. */
interface GateSetting {
  /** Null: it is not set, or the value is not valid. */
  readonly enabled: boolean | null;
  /** The reasons why it can't be read, one line each. */
  readonly problems: readonly string[];
}

/** Reads key `config.yaml`, of which only `featureGates` is used here. */
export function gateSetting(data: ConfigMapData | null, name: GateName = 'NodeNetworkPolicy'): GateSetting {
  const text = data?.['config.yaml'];
  if (text === undefined) return { enabled: null, problems: [] };
  const { config, problems } = parseConfig(text, 'config.yaml');
  const errors = problems.filter(({ severity }) => severity === 'error').map(formatProblem);
  return { enabled: config?.featureGates[name] ?? null, problems: errors };
}

/**
 * Annotations of the Lease: the last value set by a ConfigMap. One for each gate: controllers of
 * version 0.1 know the first one alone, with nothing else in it.
 */
export const GATE_ANNOTATIONS: Readonly<Record<GateName, string>> = {
  NodeNetworkPolicy: 'nodewall.io/feature-gate',
  EgressGateway: 'nodewall.io/feature-gate-egress',
};

export function formatGate(enabled: boolean, name: GateName): string {
  return `${name}=${enabled}`;
}

/** Null if the annotation is missing, or was not written by `formatGate`. */
export function parseGate(text: unknown, name: GateName): boolean | null {
  return [true, false].find((enabled) => text === formatGate(enabled, name)) ?? null;
}

/** Sources of the gate's value besides the ConfigMap. */
interface GateSources {
  /** The value in force; null: not decided yet. */
  readonly before: GateValue | null;
  /** The last value set by a ConfigMap, from the Lease. */
  readonly stated: boolean | null;
  /** The value in the controller's own configuration. */
  readonly configured: boolean | null;
}

/** The resulting gate. */
interface GateChange {
  readonly enabled: GateValue;
  /** Why the ConfigMap does not say it, where that has to be looked at; null: it has not. */
  readonly problem: string | null;
}

/**
 * A gate that is off removes every node's table, or lets pods leave with their node's address, so
 * it must be set explicitly: if the ConfigMap was deleted, emptied or can't be read, or doesn't
 * name the gate, the gate stays as it was. When a controller starts, that is the last value set by
 * a ConfigMap; else the value in the controller's own configuration; else it has none.
 */
export function gateAfter(
  data: ConfigMapData | null,
  { before, stated, configured }: GateSources,
  name: GateName,
): GateChange {
  const { enabled, problems } = gateSetting(data, name);
  if (problems.length === 0 && enabled !== null) return { enabled, problem: null };
  const kept = before ?? stated ?? configured ?? 'unset';
  // Nobody needs a ConfigMap before he switches on, nor EgressGateway in it without gateways.
  const isUsual = name === 'EgressGateway' ? kept !== true : data === null && kept === 'unset';
  const isConfigured = data === null && kept === configured;
  return { enabled: kept, problem: isUsual || isConfigured ? null : problemOf(data, problems, name) };
}

function problemOf(data: ConfigMapData | null, problems: readonly string[], name: GateName): string {
  const what = 'ConfigMap nodewall-config';
  if (data === null) return `there is no ${what}`;
  if (problems.length > 0) return `${what} is invalid: ${problems.join('; ')}`;
  return `${what} does not set feature gate ${name}`;
}

interface GateEvents {
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
const SWITCH_OFF = 'switch-off';

/** Seconds; a day. */
const LONGEST = 86_400;

interface SwitchOff {
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
