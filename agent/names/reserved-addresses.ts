import { isIP } from 'node:net';
import { type Address, parseCidr } from '../../lib/net/address.ts';
import { hasMember, type MemberSet, toMemberSet } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';

/** This host (RFC 1122), loopback and link-local addresses. */
const ALWAYS = ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '::/128', '::1/128', 'fe80::/10'].flatMap(
  (text) => {
    const parsed = parseCidr(text);
    return parsed === null ? [] : [{ cidr: parsed.cidr, except: [] }];
  },
);

/** Milliseconds for which the list is used: to read all interfaces takes milliseconds. */
const VALID = 1_000;

/**
 * Returns whether a name that no policy names, but a wildcard matches, may not have this address:
 * whoever owns such a name could open the node itself or its API server to the rule's ports.
 * `listed` has the node's own addresses and the API server's.
 */
export function reservedAddresses(
  listed: () => readonly string[],
  clock: Pick<Clock, 'now'>,
): (address: Address) => boolean {
  let members: MemberSet = toMemberSet(ALWAYS, []);
  let read = Number.NEGATIVE_INFINITY;
  return (address) => {
    if (clock.now() - read >= VALID) {
      members = toMemberSet(
        ALWAYS,
        listed().filter((text) => isIP(text) !== 0),
      );
      read = clock.now();
    }
    return hasMember(members, address);
  };
}
