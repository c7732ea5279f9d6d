import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Ipset, IpsetError } from 'ipset-ts';
import { Nftables, NftError } from 'nftables-napi';
import { IptablesReconciler } from '../apply/iptables/reconciler.ts';
import { removeRules, removeSets } from '../apply/iptables/remove.ts';
import { IptablesError, type IptablesTools } from '../apply/iptables/tools.ts';
import { type Variant, variantTools } from '../apply/iptables/variant.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import { NodeRuleReconciler } from '../apply/reconciler.ts';
import { removeTable } from '../apply/remove.ts';
import { CHAIN_PREFIX } from '../render/iptables/tables.ts';
import { TABLE } from '../render/ruleset.ts';

/** One place of the kernel where a dataplane of ours may have left something, in whatever run. */
export interface Remains {
  /** For the log. */
  readonly name: string;
  /** Whether packets meet rules of ours there. */
  holdsRules(): Promise<boolean>;
  /** In words what was removed. Nothing is loaded or started for what can't be there. */
  remove(): Promise<string[]>;
}

export function nftRemains(kernel: Kernel): Remains {
  return {
    name: 'nftables',
    holdsRules: () => whereNfTablesIs(() => new NodeRuleReconciler(kernel).holdsRules(), false),
    remove: () =>
      whereNfTablesIs(
        async () => ((await removeTable(kernel)) ? [`table ${TABLE.family} ${TABLE.name}`] : []),
        [],
      ),
  };
}

/**
 * The kernel's answers where nf_tables is neither built in nor a module that can be loaded: then it
 * holds nothing.
 */
const NO_NF_TABLES: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT']);

async function whereNfTablesIs<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NftError && NO_NF_TABLES.has(error.code)) return otherwise;
    throw error;
  }
}

/** Jumps and chains; the sets that they name are both variants'. */
export function iptablesRemains(
  variant: Variant,
  toolsOf: (variant: Variant) => Promise<IptablesTools | null> = holdingTools,
): Remains {
  return {
    name: `iptables (${variant})`,
    async holdsRules() {
      const found = await toolsOf(variant);
      return found === null ? false : new IptablesReconciler(found).holdsRules();
    },
    async remove() {
      const found = await toolsOf(variant);
      const removed = found === null ? [] : await removeRules(found);
      return removed.map((words) => `${words} (${variant})`);
    },
  };
}

/**
 * The commands of a variant that may hold chains of ours; null: it doesn't, or they aren't
 * installed.
 */
export async function holdingTools(variant: Variant): Promise<IptablesTools | null> {
  return (await MAY_HOLD[variant]()) ? variantTools(variant) : null;
}

/** Asked of the kernel, so that no process is started where there is nothing. */
const MAY_HOLD: Readonly<Record<Variant, () => Promise<boolean>>> = {
  async legacy() {
    for (const file of ['/proc/net/ip_tables_names', '/proc/net/ip6_tables_names']) {
      const tables = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        // Without the modules.
        if (error.code === 'ENOENT') return '';
        // It is root's.
        throw new IptablesError('NOT_PERMITTED', error.message, { cause: error });
      });
      if (/^(filter|nat)$/m.test(tables)) return true;
    }
    return false;
  },
  nft: () =>
    whereNfTablesIs(async () => {
      const nftables = new Nftables();
      try {
        const listed = [...(await nftables.list('chains ip')), ...(await nftables.list('chains ip6'))];
        return JSON.stringify(listed).includes(`"${CHAIN_PREFIX}`);
      } finally {
        await nftables.close();
      }
    }, false),
};

/** To be removed when the rules of both variants are gone. */
export function setRemains(): Remains {
  return {
    name: 'ipset',
    holdsRules: async () => false,
    async remove() {
      // The command would load the module.
      if (!existsSync('/sys/module/ip_set')) return [];
      try {
        return await removeSets({ ipset: new Ipset() });
      } catch (error) {
        // The module is somebody else's, who has a command of their own.
        if (error instanceof IpsetError && error.code === 'NO_COMMAND') return [];
        throw error;
      }
    },
  };
}
