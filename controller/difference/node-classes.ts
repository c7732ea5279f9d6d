import type { Compiled } from '../../apis/compiled.ts';

/**
 * Divides nodes by the rules that apply to them, and by the families of their addresses. Cost: the
 * size of all different spans.
 */
export function nodeClasses(nodes: readonly string[], states: readonly Compiled[]): string[][] {
  const classOf = new Map(nodes.map((node) => [node, 0]));
  let count = 1;
  const split = (members: Iterable<string>, of: (node: string) => string = () => ''): void => {
    const parts = new Map<string, number>();
    for (const node of members) {
      const now = classOf.get(node);
      if (now === undefined) continue;
      const key = `${now} ${of(node)}`;
      const part = parts.get(key) ?? count++;
      parts.set(key, part);
      classOf.set(node, part);
    }
  };
  for (const { nodeAddresses, policies } of states) {
    split(nodes, (node) => familiesOf(nodeAddresses.get(node) ?? []));
    for (const span of new Set(policies.flatMap(({ spans }) => spans))) split(span);
  }
  return [...Map.groupBy(nodes, (node) => classOf.get(node)).values()];
}

function familiesOf(addresses: readonly string[]): string {
  return `${addresses.some((text) => text.includes('.'))} ${addresses.some((text) => text.includes(':'))}`;
}
