/** 32 bytes in base64, as wg(8) writes them. The last digit has two bits that are always 0. */
const KEY = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

export function isWireGuardKey(text: unknown): text is string {
  return typeof text === 'string' && KEY.test(text);
}
