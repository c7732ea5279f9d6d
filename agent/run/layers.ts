import type { NodeState } from '../../apis/compiled.ts';
import type { Enforced } from '../apply/enforcer.ts';
import type { Envelope } from '../apply/envelope.ts';

export type PassOn = (envelope: Envelope) => void;

/** One part of what an agent does with a state on its way to the kernel and back. */
export interface Layer {
  /**
   * An envelope comes down. The layer passes it on with its own part, at once or later, and again
   * when its part changes.
   */
  submit(envelope: Envelope): void;
  /** The state with this layer's part as it is now; absent: it adds none. */
  over?(state: NodeState): NodeState;
  /** The part of an envelope that was passed on and is in force. */
  enforced?(result: Enforced): void;
  /** A third party changed the rules, or packets were accepted past the deadline of a trial. */
  lost?(): void;
  /** Resolves once no envelope waits here. */
  idle?(): Promise<void>;
}

/**
 * The layers between the source of states and the kernel. An envelope passes them in order, and
 * each adds its part; what is in force is reported to all in the same order. No layer takes back
 * what another added, because the envelope has the state in both forms.
 */
export class Layers {
  #layers: readonly Layer[] = [];

  /** Puts a layer before those that are there: the last one is put first. */
  put<L extends Layer>(layer: L): L {
    this.#layers = [layer, ...this.#layers];
    return layer;
  }

  /** Passes an envelope on to the layer that is the first one now. */
  get next(): PassOn {
    const [first] = this.#layers;
    return (envelope) => first?.submit(envelope);
  }

  /** The state with what all layers add now. */
  resolve(state: NodeState): NodeState {
    return this.#layers.reduce((rest, layer) => layer.over?.(rest) ?? rest, state);
  }

  enforced(result: Enforced): void {
    for (const layer of this.#layers) layer.enforced?.(result);
  }

  lost(): void {
    for (const layer of this.#layers) layer.lost?.();
  }

  async idle(): Promise<void> {
    for (const layer of this.#layers) await layer.idle?.();
  }
}
