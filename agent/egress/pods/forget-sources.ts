import type { Conntrack } from 'nftables-napi';
import { parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';

/** Deletes the connections that these addresses began: another pod has them now, or will. */
export async function forgetSources(
  conntrack: Pick<Conntrack, 'entries' | 'delete'>,
  addresses: ReadonlySet<string>,
): Promise<void> {
  const packed = new Set<string>();
  for (const text of addresses) {
    const address = parseAddress(text);
    if (address !== null) packed.add(toKey(packAddress(address)));
  }
  for await (const entries of conntrack.entries())
    await conntrack.delete(entries.filter(({ original }) => packed.has(toKey(original.source))));
}

function toKey(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
