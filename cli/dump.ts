import { EMPTY_STATE } from '../agent/apply/plan/current-state.ts';
import { transaction } from '../agent/apply/plan/transaction.ts';
import { transactionText } from '../agent/apply/plan/transaction-text.ts';
import { receive } from '../agent/receive/receive.ts';
import { iptablesRenderer } from '../agent/render/iptables/render.ts';
import { render } from '../agent/render/render.ts';
import { savedDigests } from '../agent/run/state-store.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { snapshot } from '../apis/snapshot.ts';
import { toWrittenRule } from '../apis/wire.ts';
import { formatMembers } from '../lib/net/member-set.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { iptablesTexts } from './iptables-texts.ts';
import { load, loadConfig, loadNode, type NodeOptions } from './load.ts';
import { json, print } from './output.ts';

type DumpOptions = NodeOptions & { readonly fromEmpty?: boolean; readonly stateDir?: string };

/** Prints the value of one stage (docs/architecture.md). */
export async function dump(
  stage: 'objects' | 'wire' | 'state' | 'transaction',
  options: DumpOptions,
): Promise<ExitStatus> {
  if (stage === 'objects') {
    const config = await loadConfig(options.config);
    await print(json((await load(options, config)).objects));
    return EXIT.done;
  }
  const { state, config } = await loadNode(options);
  switch (stage) {
    case 'wire':
      for (const message of snapshot(state)) await print(`${JSON.stringify(message)}\n`);
      break;
    case 'state':
      await print(json(toJson(receive(snapshot(state)))));
      break;
    case 'transaction': {
      await print(await transactionOf(state, config, options));
      break;
    }
  }
  return EXIT.done;
}

/**
 * Text in the language of the configured dataplane. `auto` needs a trial, for which --from-empty
 * has no permissions: there it means nftables.
 */
async function transactionOf(given: NodeState, config: Config, options: DumpOptions): Promise<string> {
  const { fromEmpty = false, stateDir } = options;
  if (fromEmpty) {
    if (config.dataplane === 'iptables') return iptablesTexts(iptablesRenderer(config)(given));
    return transactionText(transaction(EMPTY_STATE, render(given, config)));
  }
  const { chooseDataplane, iptablesCommands } = await import('../agent/dataplane/open-dataplanes.ts');
  const { withKernel } = await import('../agent/run/with-kernel.ts');
  const { withLocalPodsNow } = await import('../agent/run/interface-groups.ts');
  const state = await withLocalPodsNow(given, config);
  return withKernel(async (kernel) => {
    const { name } = await chooseDataplane(config);
    if (name === 'nftables') return transactionText(await planned(kernel, render(state, config), stateDir));
    const { IptablesReconciler } = await import('../agent/apply/iptables/reconciler.ts');
    const { tools } = await iptablesCommands(config);
    return (await new IptablesReconciler(tools).plan(iptablesRenderer(config)(state))).text();
  });
}

async function planned(
  kernel: import('../agent/apply/netlink/kernel.ts').Kernel,
  desired: ReturnType<typeof render>,
  stateDir: string | undefined,
): Promise<ReturnType<typeof transaction>> {
  const { NodeRuleReconciler } = await import('../agent/apply/reconciler.ts');
  // Plans like an agent that has just started: a fixed chain with its saved digest has the content
  // that its name stands for.
  const remembered = stateDir === undefined ? {} : await savedDigests(stateDir);
  return new NodeRuleReconciler(kernel, { remembered }).plan(desired);
}

function toJson(state: NodeState): object {
  return {
    ...state,
    rules: state.rules.map(toWrittenRule),
    addressSets: [...state.addressSets.values()].map(({ members, ...set }) => ({
      ...set,
      members: formatMembers(members),
    })),
    serviceSets: [...state.serviceSets.values()],
  };
}
