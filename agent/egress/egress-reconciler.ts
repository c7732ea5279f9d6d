import type { Netstate } from '../../apis/egress/netstate.ts';
import type { Applied, Reconciler } from '../apply/dataplane.ts';
import type { Ruleset } from '../render/ruleset.ts';

/** The value of stage 5 of a node with egress gateways. */
export interface EgressRuleset extends Ruleset {
  readonly netstate: Netstate;
}

/** Keeps a network configuration in the kernel (NetstateKeeper). */
export interface NetworkKeeper {
  /** @returns what was changed, as commands */
  apply(
    wanted: Netstate,
    options: { readonly removals: boolean },
  ): Promise<{ readonly operations: readonly string[] }>;
}

/**
 * Applies rules and network configuration, make before break: what the new rules need is there
 * before them, and what the old ones needed goes after them. If the rules are refused, the network
 * configuration of those in force is made again.
 *
 * Trouble with the network configuration stops no rules: it is reported and tried again by its
 * keeper, and meanwhile the guards drop what would need it.
 */
export class EgressReconciler implements Reconciler<EgressRuleset> {
  readonly #rules: Reconciler<Ruleset>;
  readonly #network: NetworkKeeper;
  #last: Netstate | null = null;

  constructor(rules: Reconciler<Ruleset>, network: NetworkKeeper) {
    this.#rules = rules;
    this.#network = network;
  }

  async apply(desired: EgressRuleset): Promise<Applied> {
    const { netstate } = desired;
    const isChanged = netstate !== this.#last;
    const added = isChanged ? await this.#try(netstate, false) : [];
    let applied: Applied;
    try {
      applied = await this.#rules.apply(desired);
    } catch (error) {
      // Also what it has that the refused rules would not have needed: the next apply removes it.
      if (isChanged && this.#last !== null) await this.#try(this.#last, false);
      throw error;
    }
    const removed = isChanged ? await this.#try(netstate, true) : [];
    this.#last = netstate;
    return withOperations(applied, [...added, ...removed]);
  }

  verify(): Promise<string[]> {
    return this.#rules.verify();
  }

  holdsRules(): Promise<boolean> {
    return this.#rules.holdsRules();
  }

  async #try(netstate: Netstate, removals: boolean): Promise<readonly string[]> {
    try {
      return (await this.#network.apply(netstate, { removals })).operations;
    } catch {
      return []; // told by the keeper, which tries again
    }
  }
}

function withOperations(applied: Applied, operations: readonly string[]): Applied {
  if (operations.length === 0) return applied;
  const { change } = applied;
  const text = () => [change.text(), ...operations].filter((part) => part !== '').join('\n');
  return { ...applied, change: { isEmpty: false, changesStructure: change.changesStructure, text } };
}
