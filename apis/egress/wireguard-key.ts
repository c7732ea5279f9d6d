/** In the agent's state directory. Without it the agent makes another key at its start. */
export const WIREGUARD_KEY_FILE = 'wireguard-key';

/** 32 bytes in base64, as wg(8) writes them. The last digit has two bits that are always 0. */
const KEY = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

export function isWireGuardKey(text: unknown): text is string {
  return typeof text === 'string' && KEY.test(text);
}
