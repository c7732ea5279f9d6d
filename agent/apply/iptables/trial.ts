import { IpsetError } from 'ipset-ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { CHAIN_PREFIX, SET_PREFIX } from '../../render/iptables/tables.ts';
import { collectSets } from './collect-sets.ts';
import { commandOf, IptablesError, type IptablesTools } from './tools.ts';

/** A variant's families that do not work, each with its error; empty: all work. */
export type VariantTrial = ReadonlyMap<Family, string>;

const CHAIN = `${CHAIN_PREFIX}TRIAL`;
const sets = { 4: `${SET_PREFIX}trial-4`, 6: `${SET_PREFIX}trial-6` } as const;

/**
 * The chain returns every packet, and is there for as long as two commands take. Names of ours, so
 * that whatever a crash leaves is removed like other left-overs.
 */
function texts(family: Family): readonly string[] {
  const match = `-m set --match-set ${sets[family]} src -m conntrack --ctstate ESTABLISHED`;
  return [
    `*filter\n:${CHAIN} - [0:0]\n-A ${CHAIN} ${match} -m comment --comment trial -j RETURN\n-I INPUT 1 -j ${CHAIN}\nCOMMIT\n`,
    `*filter\n-D INPUT -j ${CHAIN}\n-F ${CHAIN}\n-X ${CHAIN}\nCOMMIT\n`,
  ];
}

/**
 * Tries in the kernel what rules need of a variant: a set, a chain, a jump from INPUT. Removes them
 * again. Throws if this process has not the permission for it.
 */
export async function tryVariant(tools: IptablesTools): Promise<VariantTrial> {
  const failures = new Map<Family, string>();
  for (const family of FAMILIES) {
    try {
      await tryFamily(tools, family);
    } catch (error) {
      if (!(error instanceof IptablesError || error instanceof IpsetError)) throw error;
      if (error.code === 'NOT_PERMITTED') throw error;
      if (error.code !== 'NO_FAMILY') failures.set(family, `${commandOf(family)}: ${error.message}`);
    }
  }
  return failures;
}

async function tryFamily({ ipset, restore }: IptablesTools, family: Family): Promise<void> {
  const name = sets[family];
  await ipset.create({ name, type: 'hash:net', family: family === 4 ? 'inet' : 'inet6' }, { exist: true });
  try {
    for (const text of texts(family)) await restore(family, text);
  } finally {
    await collectSets(ipset, [{ op: 'destroy', name }]);
  }
}
