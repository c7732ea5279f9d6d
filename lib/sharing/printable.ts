/** Control, format (bidirectional ones among them) and line separating characters of Unicode. */
const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Text of others on one line, with the characters that steer a terminal escaped as in JSON. */
export function printable(text: string): string {
  return text.replaceAll(STEERING, (found) =>
    Array.from({ length: found.length }, (_, i) => {
      return `\\u${found.charCodeAt(i).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}
