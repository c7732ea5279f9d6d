import { parseAddress } from '../../lib/net/address.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

const FORM =
  'labels of letters, digits and "-", at most 63 characters each and 253 in all, with dots between them, as in www.example.com';

/** Accepts a host name, or `*.` and a host name. */
export function checkFqdn(raw: string, path: FieldPath, found: Findings): void {
  const text = toFqdn(raw);
  const name = text.startsWith('*.') ? text.slice(2) : text;
  if (text === '*') {
    found.error(path, '"*" stands for any name; to match any address leave the whole list out');
  } else if (name.includes('*')) {
    const end = /^[^*]*\*+\.?([a-z0-9-]+(\.[a-z0-9-]+)+)$/.exec(text)?.[1] ?? 'example.com';
    const message = `${show(raw)}: "*" can only be the whole first label, once, as in *.${end}`;
    found.error(path, message);
  } else if (parseAddress(name) !== null) {
    const cidr = `${name}/${name.includes(':') ? 128 : 32}`;
    found.error(path, `${show(raw)} is an address, not a name; write ipBlock: {cidr: "${cidr}"}`);
  } else if (/^[\d.]+(\/\d+)?$/.test(name)) {
    found.error(path, `${show(raw)} has digits only, so it is neither a name nor an address`);
  } else if (/[^\x20-\x7e]/.test(name)) {
    found.error(path, `${show(raw)} is not a valid DNS name; write other letters in xn-- form: ${FORM}`);
  } else if (name.length > 253 || !name.split('.').every((label) => LABEL.test(label))) {
    found.error(path, `${show(raw)} is not a valid DNS name: ${FORM}`);
  }
}

/** In lower case, without a trailing dot. */
export function toFqdn(text: string): string {
  return text.toLowerCase().replace(/\.$/, '');
}
