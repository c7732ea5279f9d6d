import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Ipset, IpsetError } from 'ipset-ts';
import { Nftables } from 'nftables-napi';
import { CommandError } from '../../../lib/process/exit.ts';
import { removeRules, removeSets } from '../../apply/iptables/remove.ts';
import { countedRules } from '../../apply/iptables/saved.ts';
import { IptablesError, type IptablesTools, type Variant, variantTools } from '../../apply/iptables/tools.ts';
import { whereNfTablesIs } from '../../apply/netlink/kernel.ts';
import { CHAIN_PREFIX } from '../../render/iptables/tables.ts';
import type { DataplanePort, LeftOvers } from '../dataplane.ts';
import { iptablesCommands, workingCommands } from './commands.ts';

export const iptablesPort: DataplanePort = {
  async trial(config) {
    try {
      const { tools, lacks } = await workingCommands(config);
      return tools === null ? { works: false, why: lacks } : { works: true, lacks };
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      return { works: false, why: error.message };
    }
  },
  async open(config) {
    const { iptablesDataplane } = await import('./iptables-dataplane.ts');
    const found = config.iptables.variant === 'auto' ? await workingCommands(config) : null;
    // Without any that works the agent says so at each attempt, as the kernel may change.
    const { tools, variant } = found?.tools == null ? await iptablesCommands(config) : found;
    // The reconciler manages the chains of its own variant, and all sets.
    const manages = [iptablesLeftOvers(variant), setLeftOvers()].map(({ name }) => name);
    return { dataplane: iptablesDataplane(tools), manages, details: { variant } };
  },
  leftOvers: () => [iptablesLeftOvers('nft'), iptablesLeftOvers('legacy'), setLeftOvers()],
  async plan({ state, config }) {
    const { IptablesReconciler } = await import('../../apply/iptables/reconciler.ts');
    const { iptablesRenderer } = await import('../../render/iptables/render.ts');
    const { tools } = await iptablesCommands(config);
    return (await new IptablesReconciler(tools).plan(iptablesRenderer(config)(state))).text();
  },
  async counts() {
    for (const variant of ['nft', 'legacy'] as const) {
      const tools = await holdingTools(variant);
      const table = tools === null ? null : countedRules({ 4: await tools.save(4), 6: await tools.save(6) });
      if (table !== null) return table;
    }
    return null;
  },
};

/** The jumps and chains of one variant; the sets that they name belong to both variants. */
export function iptablesLeftOvers(
  variant: Variant,
  toolsOf: (variant: Variant) => Promise<IptablesTools | null> = holdingTools,
): LeftOvers {
  return {
    name: `iptables (${variant})`,
    async holdsRules() {
      const found = await toolsOf(variant);
      if (found === null) return false;
      const { IptablesReconciler } = await import('../../apply/iptables/reconciler.ts');
      return new IptablesReconciler(found).holdsRules();
    },
    async remove() {
      const found = await toolsOf(variant);
      const removed = found === null ? [] : await removeRules(found);
      return removed.map((words) => `${words} (${variant})`);
    },
  };
}

/**
 * The commands of a variant that may hold chains of ours; null if it holds none, or if the commands
 * aren't installed.
 */
export async function holdingTools(variant: Variant): Promise<IptablesTools | null> {
  return (await MAY_HOLD[variant]()) ? variantTools(variant) : null;
}

/** Read from the kernel, so that no process is started if there is nothing. */
const MAY_HOLD: Readonly<Record<Variant, () => Promise<boolean>>> = {
  async legacy() {
    for (const file of ['/proc/net/ip_tables_names', '/proc/net/ip6_tables_names']) {
      const tables = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        // The modules are not loaded.
        if (error.code === 'ENOENT') return '';
        // Only root may read the file.
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

/** Our ipset sets. Remove them after the rules of both variants. */
function setLeftOvers(): LeftOvers {
  return {
    name: 'ipset',
    holdsRules: async () => false,
    async remove() {
      // The ipset command would load the module.
      if (!existsSync('/sys/module/ip_set')) return [];
      try {
        return await removeSets({ ipset: new Ipset() });
      } catch (error) {
        // The module is in use by a third party that has an ipset command of its own.
        if (error instanceof IpsetError && error.code === 'NO_COMMAND') return [];
        throw error;
      }
    },
  };
}
