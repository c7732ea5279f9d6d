import assert from 'node:assert/strict';
import { type Dataplane, REPAIRED_WITHIN } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { type ForeignRules, installForeignRules } from './foreign-rules.ts';
import { variousRules } from './manifests.ts';
import { until } from './until.ts';

/** A node with various rules in force, beside chains and sets of others. */
export interface DriftBed {
  readonly node: EnforcedNode;
  readonly agent: RunningAgent;
  /** As they are in force. */
  readonly rules: string;
  readonly foreign: ForeignRules;
  /** What `foreign` lists. */
  readonly others: string;
  /** Waits until what is in force is `rules` again. */
  untilRepaired(what: string): Promise<void>;
  assertOthersLeftAlone(): Promise<void>;
}

/** @param marker stands in the rules once all are in force */
export async function driftBed(dataplane: Dataplane, marker: string): Promise<DriftBed> {
  const node = await createEnforcedNode(undefined, dataplane);
  const foreign = await installForeignRules(node.topology.node, [dataplane]);
  const others = await foreign.list();
  await node.write('policy.json', [variousRules()]);
  const agent = node.start();
  await node.untilEnforced(marker, agent);
  const rules = await node.rules();
  async function untilRepaired(what: string): Promise<void> {
    let now = '';
    const isRepaired = async () => {
      now = await node.rules();
      return now === rules;
    };
    const detail = () => `${now}\n--- instead of\n${rules}\n--- agent\n${agent.log().slice(-2000)}`;
    await until(`repaired: ${what}`, isRepaired, { limit: REPAIRED_WITHIN, detail, news: agent.news });
  }
  const assertOthersLeftAlone = async () =>
    assert.equal(await foreign.list(), others, "what is others' was touched");
  return { node, agent, rules, foreign, others, untilRepaired, assertOthersLeftAlone };
}
