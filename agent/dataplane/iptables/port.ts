import { CommandError } from '../../../lib/process/exit.ts';
import type { DataplanePort } from '../kind.ts';
import { iptablesCommands, workingCommands } from './commands.ts';
import { holdingTools, iptablesLeftOvers, setLeftOvers } from './left-overs.ts';

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
    const { countedRules } = await import('../../apply/iptables/counted.ts');
    for (const variant of ['nft', 'legacy'] as const) {
      const tools = await holdingTools(variant);
      const table = tools === null ? null : countedRules({ 4: await tools.save(4), 6: await tools.save(6) });
      if (table !== null) return table;
    }
    return null;
  },
};
