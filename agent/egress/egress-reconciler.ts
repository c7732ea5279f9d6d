import type { Netstate } from '../../apis/egress/netstate.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { Applied, Reconciler } from '../apply/reconciler-interface.ts';
import type { Ruleset } from '../render/ruleset.ts';
import { type EndedConnections, endedConnections } from './lingering.ts';

/** The rules of a node with egress gateways, and what they were made of. */
export interface EgressRuleset extends Ruleset {
  readonly egress: NodeEgress | null;
}

/** The network configuration that a node needs, and how it gets into the kernel. */
export interface EgressNetwork {
  netstateOf(egress: NodeEgress | null): Promise<Netstate>;
  /** Whether the kernel has a tunnel, of this run or an earlier one. */
  hasTunnel(): Promise<boolean>;
  /** @returns what was changed, as commands */
  apply(
    wanted: Netstate,
    options: { readonly removals: boolean },
  ): Promise<{ readonly operations: readonly string[] }>;
  /** Drops floating addresses for which the rules to come do not keep this node silent. */
  leave(egress: NodeEgress | null): Promise<void>;
  /** Keeps this node silent for floating addresses that are not alive; null: there are none. */
  silence(egress: NodeEgress | null): Promise<void>;
  /** @returns what somebody else changed of that */
  verifySilence(): Promise<readonly string[]>;
  /**
   * Deletes what the kernel knows of these connections. What it refuses is tried again, and not
   * waited for.
   */
  forget(ended: EndedConnections): Promise<void>;
}

/**
 * Applies rules and network configuration, make before break: what the new rules need is there
 * before them, and what the old ones needed goes after them. If the rules are refused, the network
 * configuration of those in force is made again. A tunnel that is not there yet comes after the
 * rules: a gateway without them would forward what comes out of it with the pods' own addresses.
 *
 * Trouble with the network configuration stops no rules: it is reported and tried again by its
 * keeper, and meanwhile the guards drop what would need it.
 */
export class EgressReconciler implements Reconciler<EgressRuleset> {
  readonly #rules: Reconciler<Ruleset>;
  readonly #network: EgressNetwork;
  /** The state by which connections were marked. */
  #marked: NodeEgress | null;
  #last: { readonly egress: NodeEgress | null; readonly netstate: Netstate } | null = null;

  /** @param marked what an earlier run had in force; null: not known */
  constructor(rules: Reconciler<Ruleset>, network: EgressNetwork, marked: NodeEgress | null) {
    this.#rules = rules;
    this.#network = network;
    this.#marked = marked;
  }

  async apply(desired: EgressRuleset): Promise<Applied> {
    const { egress } = desired;
    // Before the rules: an address without them would be answered for, whoever has its lease.
    await this.#network.leave(egress);
    if (egress !== null) await this.#network.silence(egress);
    if (egress === this.#last?.egress) return await this.#rules.apply(desired);
    const netstate = await this.#network.netstateOf(egress);
    const added = (await this.#isFirstTunnel(netstate)) ? [] : await this.#try(netstate, false);
    let applied: Applied;
    try {
      applied = await this.#rules.apply(desired);
    } catch (error) {
      // Objects that only the refused rules would have needed go with the next apply.
      if (this.#last !== null) await this.#try(this.#last.netstate, false);
      throw error;
    }
    const ended = endedConnections(this.#marked, egress);
    if (Object.values(ended).some(({ size }) => size > 0)) await this.#network.forget(ended);
    this.#marked = egress ?? this.#marked;
    const removed = await this.#try(netstate, true);
    if (egress === null) await this.#network.silence(null);
    this.#last = { egress, netstate };
    return withOperations(applied, [...added, ...removed]);
  }

  async verify(): Promise<string[]> {
    return [...(await this.#rules.verify()), ...(await this.#network.verifySilence())];
  }

  holdsRules(): Promise<boolean> {
    return this.#rules.holdsRules();
  }

  async #isFirstTunnel({ links }: Netstate): Promise<boolean> {
    const had = this.#last?.netstate.links ?? [];
    return links.length > 0 && had.length === 0 && !(await this.#network.hasTunnel());
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
