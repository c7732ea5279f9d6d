import type { ClusterObjects, Node } from '../../apis/objects.ts';
import type { ValidateOptions } from '../../apis/validate/object.ts';
import { type AcceptedAddresses, type AddressOwnership, claimedText } from '../index/accepted-addresses.ts';
import { compareProblems } from './assemble.ts';
import type { FileContent } from './content.ts';
import type { LoadProblem } from './source.ts';

interface Read {
  readonly objects: ClusterObjects;
  readonly problems: readonly LoadProblem[];
}

/** The objects with the addresses of Nodes that are accepted, and a warning for each other Node. */
export function acceptNodes(read: Read, contents: readonly FileContent[], accepted: AcceptedAddresses): Read {
  const objects = accepted.advance(read.objects);
  const refused = new Map(
    objects.nodes.flatMap((node) => (node.claimedAddresses ? [[node.name, node] as const] : [])),
  );
  if (refused.size === 0) return { ...read, objects };
  const warnings = contents.flatMap(({ file, nodes }) =>
    nodes.objects.flatMap(({ name }, i) => {
      const node = refused.get(name);
      return node === undefined ? [] : toWarning(node, file, nodes.lines[i] ?? 0);
    }),
  );
  return { objects, problems: [...read.problems, ...warnings].sort(compareProblems) };
}

function toWarning({ name, claimedAddresses = [] }: Node, file: string, line: number): LoadProblem {
  const message = claimedText(claimedAddresses);
  return { severity: 'warning', file, line, kind: 'Node', name, path: 'status.addresses', message };
}

export function ownershipOf({ nodeCIDRs, egressConfig }: ValidateOptions): AddressOwnership {
  return { nodeCIDRs, podCIDRs: egressConfig?.podCIDRs };
}
