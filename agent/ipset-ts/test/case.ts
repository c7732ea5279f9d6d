import assert from 'node:assert/strict';
import { type Ipset, IpsetError, type IpsetErrorCode } from '../lib/index.ts';

/** Something that ipset does, as this library shows it. It starts without sets. */
export interface Case {
  readonly title: string;
  readonly run: (ipset: Ipset) => Promise<void>;
}

/** Rejects with an IpsetError of this code. */
export async function refused(code: IpsetErrorCode, promise: Promise<unknown>): Promise<IpsetError> {
  const [result] = await Promise.allSettled([promise]);
  if (result.status === 'fulfilled') assert.fail(`not refused with ${code}`);
  assert.ok(result.reason instanceof IpsetError, String(result.reason));
  assert.equal(result.reason.code, code, result.reason.stack ?? '');
  return result.reason;
}

/** The entries of a set, in an order: the kernel keeps none. */
export async function entriesOf(ipset: Ipset, name: string): Promise<string[]> {
  const [set] = await ipset.save(name);
  return [...(set?.entries ?? [])].sort();
}
