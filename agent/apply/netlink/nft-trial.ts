import { createExec } from 'ipset-ts';
import { Nftables, NftError } from 'nftables-napi';
import { siblingModule } from '../../../lib/process/child-module.ts';
import { missingText, type NftNeed, nftNeeds, TRIAL_TABLE } from './nft-needs.ts';

/**
 * Whether nf_tables can do everything that our tables need; if not, `why` names what is missing,
 * with the kernel's message.
 */
export type NftTrial = { readonly works: true } | { readonly works: false; readonly why: string };

/** One way to try nf_tables. Null: this way is not available here, another may be. */
export type TrialWay = () => Promise<NftTrial | null>;

/**
 * Whether nf_tables has what the rules of egress gateways need. Throws NftError with code EPERM
 * without permission.
 */
export function tryEgress(): Promise<NftTrial> {
  return tryHere({ hooked: false, egress: true });
}

/**
 * Tries nf_tables in the network namespace of this process and leaves nothing behind. Throws
 * NftError with code EPERM without permission.
 *
 * @param hooked whether packets may traverse it
 */
export async function tryHere({
  hooked,
  egress = false,
}: {
  readonly hooked: boolean;
  readonly egress?: boolean;
}): Promise<NftTrial> {
  const needs = nftNeeds({ hooked, egress });
  let nftables: Nftables | null = null;
  try {
    const opened = new Nftables();
    nftables = opened;
    return await tryNeeds(needs, async (text) => {
      // In one transaction the table is never visible. A hook is registered only by a commit.
      await opened.run(hooked ? text : `${text}${REMOVAL}`);
      if (hooked) await opened.run(REMOVAL);
    });
  } catch (error) {
    // Without permission the result is unknown, and iptables would not work either.
    if (!(error instanceof NftError) || error.code === 'EPERM') throw error;
    return { works: false, why: error.message };
  } finally {
    await nftables?.close();
  }
}

const REMOVAL = `delete table ${TRIAL_TABLE}\n`;

/** Tries all at once; if that fails, each by itself, to name what the kernel lacks. */
export async function tryNeeds(
  needs: readonly NftNeed[],
  run: (text: string) => Promise<void>,
): Promise<NftTrial> {
  const all = await refusal(run, needs);
  if (all === null) return { works: true };
  const [table, ...rest] = needs;
  if (table === undefined || (await refusal(run, [table])) !== null)
    return {
      works: false,
      why: table === undefined ? all.message : `${missingText([table])}: ${all.message}`,
    };
  const missing: NftNeed[] = [];
  for (const need of rest) if ((await refusal(run, [table, need])) !== null) missing.push(need);
  const why = missing.length === 0 ? all.message : `${missingText(missing)}: ${all.message}`;
  return { works: false, why };
}

async function refusal(
  run: (text: string) => Promise<void>,
  needs: readonly NftNeed[],
): Promise<NftError | null> {
  try {
    await run(needs.map(({ text }) => text).join(''));
    return null;
  } catch (error) {
    if (!(error instanceof NftError) || error.code === 'EPERM') throw error;
    return error;
  }
}

/** Tries nf_tables in a new network namespace, which this command creates. */
function inNamespace(command: readonly [string, ...string[]]): TrialWay {
  const script = siblingModule(import.meta, 'nft-trial-child');
  const exec = createExec({ command: [...command, process.execPath, script], timeout: 30_000 });
  return async () => {
    // unshare is missing, not permitted, or took too long.
    const result = await exec([]).catch(() => null);
    return result === null || result.code !== 0 ? null : (JSON.parse(result.stdout) as NftTrial);
  };
}

/** A network namespace needs CAP_SYS_ADMIN, or a user namespace, which some systems forbid. */
export const TRIAL_WAYS: readonly TrialWay[] = [
  inNamespace(['unshare', '--net']),
  inNamespace(['unshare', '--map-root-user', '--net']),
  () => tryHere({ hooked: false }),
];

/** The result of the first way that is available. */
export async function tryNftables(ways: readonly TrialWay[] = TRIAL_WAYS): Promise<NftTrial> {
  for (const way of ways) {
    const trial = await way();
    if (trial !== null) return trial;
  }
  return { works: false, why: 'the trial could not be run' };
}
