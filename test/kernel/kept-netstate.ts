import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { NetstateResult } from '../../agent/egress/apply/netstate-reconciler.ts';
import type { Netstate } from '../../apis/egress/netstate.ts';
import type { Namespace } from '../netns/namespace.ts';

/** Shorter than the interval of full comparisons: what is repaired by then was told by an event. */
export const SOON = 20_000;

type Said = { readonly applied?: NetstateResult; readonly drifted?: readonly string[] } & Partial<
  Pick<NetstateResult, 'problems'>
>;

/** A process that keeps Netstates in a namespace. */
export class Keeper {
  readonly #child: ReturnType<Namespace['spawn']>;
  readonly #limit: number;
  readonly #said: Said[] = [];
  #heard = Promise.withResolvers<void>();

  /**
   * @param around the command that starts it
   * @param stateDir where its WireGuard key is; default: it has none
   * @param limit milliseconds, at most, until it has said what is waited for
   */
  constructor(namespace: Namespace, around: readonly string[] = [], stateDir = '', limit = SOON) {
    this.#limit = limit;
    const child = join(import.meta.dirname, 'netstate-child.ts');
    this.#child = namespace.spawn([...around, process.execPath, child, stateDir]);
    this.#child.stderr.pipe(process.stderr);
    createInterface(this.#child.stdout).on('line', (line) => {
      this.#said.push(JSON.parse(line));
      this.#heard.resolve();
    });
  }

  write(netstate: Netstate): void {
    this.#child.stdin.write(`${JSON.stringify(netstate)}\n`);
  }

  async apply(netstate: Netstate): Promise<NetstateResult> {
    this.write(netstate);
    return this.next(({ applied }) => applied ?? null);
  }

  /**
   * The first thing it says of which something is found; what was said before that is forgotten.
   */
  async next<Found>(find: (said: Said) => Found | null): Promise<Found> {
    const limit = AbortSignal.timeout(this.#limit);
    for (;;) {
      for (let said = this.#said.shift(); said !== undefined; said = this.#said.shift()) {
        const found = find(said);
        if (found !== null) return found;
      }
      this.#heard = Promise.withResolvers();
      await Promise.race([this.#heard.promise, once(limit, 'abort').then(() => assert.fail('said nothing'))]);
    }
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await once(this.#child, 'exit');
  }
}
