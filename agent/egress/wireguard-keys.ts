import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import type { Config } from '../../apis/config.ts';
import { WIREGUARD_KEY_FILE } from '../../apis/objects.ts';
import type { Log } from '../../lib/process/log.ts';
import { stateFile } from '../../lib/process/state-file.ts';

/** The keys of this node's WireGuard device, 32 bytes each. */
export interface WireGuardKeys {
  /** Nobody but the kernel gets it. */
  readonly privateKey: Uint8Array;
  readonly publicKey: Uint8Array;
}

/** PKCS #8 of an X25519 key (RFC 8410) but for the key itself. */
const PKCS8 = Buffer.from('302e020100300506032b656e04220420', 'hex');

/** Null: the tunnel of egress gateways is not encrypted. */
export async function wireguardKeys(
  stateDir: string,
  { featureGates, egress }: Pick<Config, 'featureGates' | 'egress'>,
  log: Log,
): Promise<WireGuardKeys | null> {
  const isWanted = featureGates.EgressGateway === true && egress.encryption === 'WireGuard';
  return isWanted ? await savedKeys(stateDir, log) : null;
}

/**
 * Those of the state directory, or new ones, which are saved there. If they can't be saved, the
 * next process has others, and the controller learns them anew.
 */
export async function savedKeys(stateDir: string, log: Log): Promise<WireGuardKeys> {
  const file = stateFile(stateDir, WIREGUARD_KEY_FILE);
  try {
    const text = await file.read();
    if (text !== null) return toKeys(Buffer.from(text, 'base64'));
  } catch (error) {
    log.error('the saved WireGuard key cannot be used; making a new one', {
      error: (error as Error).message,
    });
  }
  const der = generateKeyPairSync('x25519').privateKey.export({ format: 'der', type: 'pkcs8' });
  const privateKey = der.subarray(PKCS8.length);
  try {
    await file.write(privateKey.toString('base64'));
  } catch (error) {
    log.error('the WireGuard key cannot be saved; the next start makes another one', {
      error: (error as Error).message,
    });
  }
  return toKeys(privateKey);
}

function toKeys(bytes: Buffer): WireGuardKeys {
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, bytes]), format: 'der', type: 'pkcs8' });
  const der = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return { privateKey: Uint8Array.from(bytes), publicKey: Uint8Array.from(der.subarray(-bytes.length)) };
}

/** As wg(8) writes it. */
export function publicKeyText({ publicKey }: WireGuardKeys): string {
  return Buffer.from(publicKey).toString('base64');
}
