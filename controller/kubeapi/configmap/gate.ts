import type { ConfigMapData } from './configmap.ts';
import { formatGate, GATE_ANNOTATION, gateAfter, gateSetting, parseGate } from './feature-gate.ts';

export interface GateEvents {
  /** At first, and whenever it is another. */
  changed(enabled: boolean): void;
  /** The ConfigMap says nothing that can be used; the gate stays as it was. */
  problem(text: string): void;
}

type Annotations = Readonly<Record<string, string>>;

/**
 * The feature gate NodeNetworkPolicy of the cluster, from ConfigMap nodewall-config and the Lease
 * that remembers what it said last.
 */
export class Gate {
  readonly #configured: boolean | null;
  readonly #events: GateEvents;
  /** Undefined: not read yet. */
  #data: ConfigMapData | null | undefined;
  /** By the Lease; undefined: not read yet. */
  #remembered: boolean | null | undefined;
  /** By the ConfigMap, in this process's life. */
  #stated: boolean | null = null;
  #enabled: boolean | null = null;

  constructor(configured: boolean | null, events: GateEvents) {
    this.#configured = configured;
    this.#events = events;
  }

  /** Null before both objects were read. */
  get enabled(): boolean | null {
    return this.#enabled;
  }

  /** For the Lease; none where no ConfigMap has said anything. */
  annotations(): Annotations {
    return this.#stated === null ? {} : { [GATE_ANNOTATION]: formatGate(this.#stated) };
  }

  /** Null: there is none. */
  takeConfigMap(data: ConfigMapData | null): void {
    this.#data = data;
    this.#stated = gateSetting(data).enabled ?? this.#stated;
    this.#decide();
  }

  /**
   * Of the Lease; null: there is none. Only the first reading matters: later ones repeat what this
   * process, or the leader beside it, has read.
   */
  takeLease(annotations: Annotations | null): void {
    if (this.#remembered !== undefined) return;
    this.#remembered = parseGate(annotations?.[GATE_ANNOTATION]);
    if (this.#enabled === null) this.#decide();
  }

  #decide(): void {
    if (this.#data === undefined || this.#remembered === undefined) return;
    const before = this.#enabled;
    const { enabled, problem } = gateAfter(this.#data, {
      before,
      stated: this.#remembered,
      configured: this.#configured,
    });
    if (problem !== null) this.#events.problem(problem);
    this.#enabled = enabled;
    if (enabled !== before) this.#events.changed(enabled);
  }
}
