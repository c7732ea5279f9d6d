import { createExec, ExecError } from 'ipset-ts';
import { type IptablesTools, iptablesTools } from './tools.ts';

export type Variant = 'nft' | 'legacy';

/**
 * The variant of the system's own `iptables`, or that of `iptables-nft` or `iptables-legacy`; null
 * if there is no such command. Throws ExecError.
 */
export async function installedVariant(of: 'auto' | Variant): Promise<Variant | null> {
  try {
    const command = of === 'auto' ? 'iptables' : `iptables-${of}`;
    const { code, stdout } = await createExec({ command: [command], timeout: 10_000 })(['--version']);
    return code === 0 ? variantOf(stdout) : null;
  } catch (error) {
    if (error instanceof ExecError && error.code === 'NO_COMMAND') return null;
    throw error;
  }
}

/**
 * iptables before 1.8 prints only its version; it is the variant that has been called legacy since.
 */
export function variantOf(version: string): Variant {
  return version.includes('(nf_tables)') ? 'nft' : 'legacy';
}

/**
 * The commands of a variant: those named for it, else the system's own if they are of that variant.
 * Null if it isn't installed. Throws ExecError.
 */
export async function variantTools(variant: Variant): Promise<IptablesTools | null> {
  for (const name of [variant, 'auto'] as const)
    if ((await installedVariant(name)) === variant) return iptablesTools(name);
  return null;
}
