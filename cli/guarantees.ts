import { explainMany } from '../agent/observe/explain.ts';
import type { Config } from '../apis/config.ts';
import type { ClusterNetworkPolicy, ClusterObjects } from '../apis/objects.ts';
import type { Guarantee } from '../controller/advise/advice-collector.ts';
import { compile } from '../controller/compile/compile.ts';
import { nodeView } from '../controller/publish/node-view.ts';

const REST = { name: 'rest', action: 'Drop' } as const;
/** Closes all that a policy without ports can close. */
const BLANKET: ClusterNetworkPolicy = {
  kind: 'ClusterNetworkPolicy',
  apiGroup: 'nodewall.io',
  name: 'blanket',
  uid: '',
  generation: 0,
  spec: { priority: 1, appliedTo: [{ nodeSelector: {} }], ingress: [REST], egress: [REST] },
};

/**
 * For each node, which of its kinds are accepted although a policy drops the rest: by which
 * exemption, or by the failsafe list. Asks the evaluation of `explain`.
 */
export function guarantees(objects: ClusterObjects, config: Config): (node: string) => Guarantee {
  const compiled = compile({ ...objects, policies: [BLANKET], guardrails: [] });
  return (node) => {
    const explain = explainMany(nodeView(compiled, node), config);
    return ({ flow, decision }) => {
      // The agent's own configuration counts, where it says so.
      if (decision?.reason === 'exempt') return decision.exemption ?? 'exempt';
      const { reason, exemption } = explain(flow);
      if (reason === 'exempt') return exemption ?? 'exempt';
      return reason === 'failsafe' ? 'failsafe' : null;
    };
  };
}
