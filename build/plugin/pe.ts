/** A PE32+ file (PE Format of Microsoft), as far as it is looked at. */
export interface Pe {
  readonly machine: number;
  readonly sections: readonly PeSection[];
  /** The place of the entry of the attribute certificates in the file (bytes). */
  readonly certificatesAt: number;
  /** Where they are in the file; 0, 0: there are none. */
  readonly certificates: { readonly offset: number; readonly size: number };
}

export interface PeSection {
  readonly name: string;
  /** In memory, from the base of the image. */
  readonly address: number;
  readonly offset: number;
  readonly size: number;
}

const HEADER_POINTER = 0x3c;
const SIGNATURE = 'PE\0\0';
const FILE_HEADER = 24;
const PE32_PLUS = 0x20b;
const DIRECTORIES = 112;
const CERTIFICATES = 4;
const SECTION = 40;

/** Throws a RangeError where the file is no PE32+ file. */
export function readPe(file: Buffer): Pe {
  const at = file.readUInt32LE(HEADER_POINTER);
  const optional = at + FILE_HEADER;
  if (file.toString('latin1', at, at + 4) !== SIGNATURE || file.readUInt16LE(optional) !== PE32_PLUS)
    throw new RangeError('not a PE32+ file');
  const first = optional + file.readUInt16LE(at + 20);
  const certificatesAt = optional + DIRECTORIES + 8 * CERTIFICATES;
  return {
    machine: file.readUInt16LE(at + 4),
    sections: Array.from({ length: file.readUInt16LE(at + 6) }, (_, i) => {
      const from = first + i * SECTION;
      return {
        name: file.toString('latin1', from, from + 8).replace(/\0+$/, ''),
        address: file.readUInt32LE(from + 12),
        offset: file.readUInt32LE(from + 20),
        size: file.readUInt32LE(from + 16),
      };
    }),
    certificatesAt,
    certificates: { offset: file.readUInt32LE(certificatesAt), size: file.readUInt32LE(certificatesAt + 4) },
  };
}

/**
 * Without the certificates of whom it was made of, which no longer fit what is in it: `--build-sea`
 * writes the program over them, and leaves the entry that points there.
 */
export function withoutSignature(file: Buffer): Buffer {
  const { certificatesAt } = readPe(file);
  const unsigned = Buffer.from(file);
  unsigned.fill(0, certificatesAt, certificatesAt + 8);
  return unsigned;
}
