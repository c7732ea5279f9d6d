import type { DataplanePort } from '../kind.ts';
import { iptablesCommands } from './commands.ts';
import { holdingTools, iptablesLeftOvers, setLeftOvers } from './left-overs.ts';

export const iptablesPort: DataplanePort = {
  async open(config) {
    const { iptablesDataplane } = await import('./iptables-dataplane.ts');
    const { tools, variant } = await iptablesCommands(config);
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
