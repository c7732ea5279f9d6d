import { parseCidr } from '../../lib/net/address.ts';
import { type MemberSet, toMemberSet } from '../../lib/net/member-set.ts';

/** Throws TypeError if a member is neither an address nor a CIDR. */
export function toMembers(name: string, members: readonly string[]): MemberSet {
  const blocks = members.flatMap((text) => {
    if (!text.includes('/')) return [];
    const parsed = parseCidr(text);
    if (parsed === null) throw new TypeError(`${name}: ${text} is not a valid CIDR`);
    return [{ cidr: parsed.cidr, except: [] }];
  });
  return toMemberSet(
    blocks,
    members.filter((text) => !text.includes('/')),
  );
}
