import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { parseCidr } from '../../lib/net/address.ts';
import { formatMembers, type MemberSet, toMemberSet } from '../../lib/net/member-set.ts';

/** What a node does for egress gateways as one line of JSON, for the state directory. */
export function toSavedEgress(egress: NodeEgress): string {
  const { inside, nodes, floating } = egress;
  const members = [inside, nodes, floating].map(formatMembers);
  return JSON.stringify({ ...egress, members }, (key, value) => {
    if (SETS.includes(key)) return undefined;
    if (value instanceof Map) return { map: [...value] };
    return typeof value === 'bigint' ? { number: String(value) } : value;
  });
}

const SETS = ['inside', 'nodes', 'floating'];

/** Reads it again. Throws if it has not the right form. */
export function fromSavedEgress(text: string): NodeEgress {
  const { members, ...egress } = JSON.parse(text, (_, value) => {
    if (Array.isArray(value?.map)) return new Map(value.map);
    return typeof value?.number === 'string' ? BigInt(value.number) : value;
  });
  const [inside, nodes, floating] = members.map(toMembers);
  return { ...egress, inside, nodes, floating };
}

function toMembers(texts: readonly string[]): MemberSet {
  const cidrs = texts.filter((text) => text.includes('/'));
  const blocks = cidrs.flatMap((text) => {
    const parsed = parseCidr(text);
    return parsed === null ? [] : [{ cidr: parsed.cidr, except: [] }];
  });
  return toMemberSet(
    blocks,
    texts.filter((text) => !text.includes('/')),
  );
}
