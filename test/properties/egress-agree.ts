import assert from 'node:assert/strict';
import type { EgressAnswer, EgressFlow } from '../../apis/egress/flow.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import {
  type CompiledEgress,
  compileEgress,
  type EgressInput,
} from '../../controller/egress/compile-egress.ts';
import { egressExplainer } from '../../controller/egress/decide.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { assemble } from '../../controller/watch/assemble.ts';
import { addObject, emptyContent } from '../../controller/watch/content.ts';
import { NO_LAST_VALID } from '../../controller/watch/last-valid-versions.ts';
import type { EgressScenario } from '../generate/egress/egress-scenario.ts';
import {
  describePermission,
  egressOracle,
  isPermitted,
  type Permission,
} from '../oracle/egress/egress-oracle.ts';
import { Consistency } from '../oracle/egress/permission.ts';
import { count, type Seen } from './agree.ts';
import { toConfig } from './pipeline.ts';

/** What a scenario came to, for those who ask more of it. */
export interface EgressAgreed {
  readonly compiled: CompiledEgress;
  readonly answers: readonly {
    readonly flow: EgressFlow;
    readonly permissions: readonly Permission[];
    readonly answer: EgressAnswer;
  }[];
}

/**
 * Asks the oracle and explain about every flow of a scenario. An assertion fails with the first
 * answer that the manifests do not permit, or that contradicts one before it.
 */
export function agreeOnEgress(scenario: EgressScenario, seen: Seen): EgressAgreed {
  const { objects, config: written, flows } = scenario;
  const judge = egressOracle(objects, written);
  const input = toEgressInput(objects);
  const compiled = compileEgress(input, toConfig(written).egress);
  const explain = egressExplainer(input, compiled);
  const consistency = new Consistency();
  const answers = flows.map((flow) => {
    const permissions = judge(flow);
    const answer = explain(flow);
    count(seen, `${answer.verdict} ${answer.reason}`);
    if (!isRight(permissions, answer)) {
      const wanted = permissions.map(describePermission).join(' or ');
      differ(`the oracle: ${wanted}`, flow, answer, scenario);
    }
    const contradiction = consistency.contradiction(permissions, answer);
    if (contradiction !== null) differ(contradiction, flow, answer, scenario);
    return { flow, permissions, answer };
  });
  return { compiled, answers };
}

/**
 * Where the kernel chooses by a hash: each node with one of the addresses, and each address with
 * one of the nodes.
 */
function isRight(permissions: readonly Permission[], answer: EgressAnswer): boolean {
  const nodes: readonly (string | null)[] = answer.nodes ?? [answer.node];
  const addresses: readonly (string | null)[] = answer.addresses ?? [answer.address];
  const isOne = (node: string | null, address: string | null): boolean =>
    isPermitted(permissions, { ...answer, node, address });
  return (
    isOne(answer.node, answer.address) &&
    nodes.includes(answer.node) &&
    addresses.includes(answer.address) &&
    nodes.every((node) => addresses.some((address) => isOne(node, address))) &&
    addresses.every((address) => nodes.some((node) => isOne(node, address)))
  );
}

/**
 * Stage 1 for objects in so many files: what is wrong in itself is left out.
 * @param files how many; the objects are dealt out to them
 */
export function toEgressInput(raw: readonly object[], files = 1): EgressInput {
  const contents = Array.from({ length: files }, (_, i) => emptyContent(`${i}.yaml`));
  for (const [i, one] of raw.entries()) {
    const content = contents[i % files];
    if (content === undefined) continue;
    addObject({ content, options: { egress: true }, interned: new Map() }, one, () => 1);
  }
  const rest = { lastValidVersions: NO_LAST_VALID, unreadable: [], lastValid: () => undefined };
  return assemble({ contents, ...rest }).objects;
}

function differ(found: string, flow: object, answer: object, { objects, config }: EgressScenario): never {
  const manifests = objects.map((object) => `  ${JSON.stringify(object)}`).sort();
  assert.fail(
    [
      `flow: ${JSON.stringify(flow)}`,
      `explain: ${JSON.stringify(answer)}`,
      found,
      `config: ${JSON.stringify(config)}`,
      `objects:\n${manifests.join('\n')}`,
    ].join('\n'),
  );
}

/** What each node does for a scenario. */
export function toNodeEgress({ objects, config }: EgressScenario): ReadonlyMap<string, NodeEgress> {
  return nodeEgressCompiler()(compileEgress(toEgressInput(objects), toConfig(config).egress));
}
