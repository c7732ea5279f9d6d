import { chooseDataplane, DATAPLANES } from '../agent/dataplane/dataplanes.ts';
import { receive } from '../agent/receive/receive.ts';
import { savedDigests } from '../agent/run/state-store.ts';
import { withKernel } from '../agent/run/with-kernel.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { snapshot, toWrittenRule } from '../apis/wire.ts';
import { formatMembers } from '../lib/net/member-set.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { nodeEgressJson } from './egress/declared-egress.ts';
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
    const kind = DATAPLANES[config.dataplane === 'auto' ? 'nftables' : config.dataplane];
    return (await kind.text()).firstTransaction(given, config);
  }
  const { withInterfacesNow } = await import('../agent/run/interface-groups.ts');
  const state = await withInterfacesNow(given, config);
  const digests = async (): Promise<Record<string, string>> =>
    stateDir === undefined ? {} : savedDigests(stateDir);
  return withKernel(async (kernel) => {
    const { name } = await chooseDataplane(config);
    return (await DATAPLANES[name].port()).plan({ kernel, state, config, digests });
  });
}

function toJson({ egress, ...state }: NodeState): object {
  return {
    ...state,
    ...(egress === undefined ? {} : { egress: nodeEgressJson(egress) }),
    rules: state.rules.map(toWrittenRule),
    addressSets: [...state.addressSets.values()].map(({ members, ...set }) => ({
      ...set,
      members: formatMembers(members),
    })),
    serviceSets: [...state.serviceSets.values()],
  };
}
