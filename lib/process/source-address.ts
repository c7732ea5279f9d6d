/**
 * The address by which a client is counted. Of an IPv6 address the network /64: one machine can use
 * all addresses of it.
 */
export function sourceOf({ remoteAddress = '' }: { readonly remoteAddress?: string | undefined }): string {
  const [text = ''] = remoteAddress.replace(/^::ffff:(?=\d+\.)/i, '').split('%');
  if (!text.includes(':')) return text;
  const [head = [], tail = []] = text
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => '0');
  return `${[...head, ...zeros, ...tail].slice(0, 4).join(':')}::/64`;
}
