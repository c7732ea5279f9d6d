import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { compileEgress } from '../../controller/egress/compile-egress.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import type { EgressScenario } from '../generate/egress/egress-scenario.ts';
import { toEgressInput } from './egress-agree.ts';
import { toConfig } from './pipeline.ts';

/** What each node does for a scenario. */
export function toNodeEgress({ objects, config }: EgressScenario): ReadonlyMap<string, NodeEgress> {
  return nodeEgressCompiler()(compileEgress(toEgressInput(objects), toConfig(config).egress));
}
