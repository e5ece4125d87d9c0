import { isSymbolName } from '../../base/symbol-name.ts';
import { utcZone } from '../../base/time-zone.ts';
import { parseLevels } from './import-books.ts';
import { findTimeUnit, type ImportDataset, parseTimeText } from './import-rows.ts';

// What the columns of a file may be, by their names and values.

/** What a column may be. */
export type Role = keyof typeof roleMeanings;

/** The columns that may be guessed. Columns of levels are not. */
const datasetRoles: Readonly<Record<ImportDataset, readonly Role[]>> = {
  ticks: ['symbol', 't', 'p'],
  quotes: ['symbol', 't', 'bid', 'ask', 'bid_size', 'ask_size'],
  trades: ['symbol', 't', 'price', 'size', 'trade_id', 'aggressor', 'tx_hash'],
  orderbooks: ['symbol', 't', 'bids', 'asks'],
  markets: [],
};

/** The roles whose columns one of the datasets reads. */
export const listRoles = (datasets: readonly ImportDataset[]): readonly Role[] => [
  ...new Set(datasets.flatMap((dataset) => datasetRoles[dataset])),
];

export const priceRoles: readonly Role[] = ['p', 'price', 'bids', 'asks', 'bid', 'ask'];

/** Names of a side of a quote, and of its size. SIDE is bid or ask. */
const sidePrices = 'SIDE bestSIDE SIDEprice bestSIDEprice SIDEpx yesSIDE yesSIDEprice yesSIDEdollars bestyesSIDE';
const sideSizes =
  'SIDEsize SIDEqty SIDEquantity SIDEsz SIDEvolume bestSIDEsize bestSIDEqty bestSIDEquantity yesSIDEsize yesSIDEqty yesSIDEquantity';

const priceNames =
  'p price lastprice lasttradeprice last yesprice tradeprice px mid midprice close probability prob value cents pricedollars lastpricedollars yespricedollars';

const nameSide = (names: string, side: 'bid' | 'ask'): string[] => names.replaceAll('SIDE', side).split(' ');

/**
 * Names that feeds use for a role, most likely first: in lower case, without punctuation, the last part of a path. A token
 * comes before its market: the tokens of a market have different prices.
 */
export const roleNames: Readonly<Record<Role, readonly string[]>> = {
  symbol:
    'symbol ticker marketticker tokenid assetid clobtokenid asset token instrument contract market marketid slug marketslug conditionid security sym'.split(
      ' ',
    ),
  t: 't timestamp ts time datetime tsms timestampms createdtime createdat eventtime tradetime exchangetime recordedat receivedat observedat epoch unixtime date'.split(
    ' ',
  ),
  p: priceNames.split(' '),
  price: priceNames.split(' '),
  size: 'size qty quantity count amount volume shares contracts sz tradesize tradeqty lastsize countfp'.split(' '),
  trade_id: 'tradeid id tradeuuid fillid matchid uuid txid executionid execid'.split(' '),
  aggressor: 'aggressor side takerside takeraction aggressorside direction tradeside'.split(' '),
  tx_hash: 'txhash transactionhash transaction hash tx'.split(' '),
  bids: 'bids bid buys buy'.split(' '),
  asks: 'asks ask offers offer sells sell'.split(' '),
  bid: nameSide(sidePrices, 'bid'),
  ask: nameSide(sidePrices, 'ask'),
  bid_size: nameSide(sideSizes, 'bid'),
  ask_size: nameSide(sideSizes, 'ask'),
};

export const roleMeanings = {
  symbol: 'the symbol',
  t: 'the time',
  p: 'the price',
  bids: 'the bids',
  asks: 'the asks',
  bid: 'the bid',
  ask: 'the ask',
  bid_size: 'the size of the bid',
  ask_size: 'the size of the ask',
  price: 'the price',
  size: 'the size',
  trade_id: 'the identifier of the trade',
  aggressor: 'the side that took the offer',
  tx_hash: 'the hash of the transaction',
};

/** Names of columns that tell rows of one symbol apart whose prices are not the same thing. */
export const kindNames =
  'outcome outcomename outcomeindex side eventtype type event msgtype messagetype channel kind'.split(' ');

/** Names of times at which no price was observed. */
export const otherTimePattern = /clos|expir|settl|resol|end|start|open|launch|first|until/;

/** Names, or parts of paths, of prices of something else. */
export const otherPricePattern = /(^|[/_])(no|bid|ask)([/_]|$)/i;

/** Names, or parts of paths, of prices of NO. */
export const noPricePattern = /(^|[/_])no([/_]|$)/i;

/** Share of a column's values that must fit a role. The others may be of another kind of row, or damaged. */
const fitShareMin = 0.8;

/** A name in lower case, without punctuation, the last part of a path. */
export const normalizeName = (name: string): string =>
  name
    .slice(name.lastIndexOf('/') + 1)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '');

const fitsMost = (values: readonly string[], isFitting: (value: string) => boolean): boolean =>
  values.length > 0 && values.filter(isFitting).length >= fitShareMin * values.length;

export const numberPattern = /^[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?$/i;

const isTime = (text: string): boolean =>
  numberPattern.test(text.trim())
    ? findTimeUnit(Number(text.replace(',', '.'))) !== null
    : typeof parseTimeText(text, { zone: utcZone, unit: 'ms', truncates: true }) === 'number';

function fitsNumber(values: readonly string[]): boolean {
  return fitsMost(values, (text) => numberPattern.test(text.trim()) && !isTime(text));
}

/** Whether the values of a column fit a role. */
export const fits: Readonly<Record<Role, (values: readonly string[]) => boolean>> = {
  symbol: (values) => fitsMost(values, (text) => isSymbolName(text) && !isTime(text) && !/^[[{]/.test(text)),
  t: (values) => fitsMost(values, isTime),
  p: fitsNumber,
  bid: fitsNumber,
  ask: fitsNumber,
  bid_size: fitsNumber,
  ask_size: fitsNumber,
  price: fitsNumber,
  size: fitsNumber,
  // Identifiers repeat in no two rows; one of a market does.
  trade_id: (values) => values.length > 0 && new Set(values).size === values.length,
  aggressor: (values) => fitsMost(values, (text) => /^(buy|sell|b|s|yes|no)$/i.test(text.trim())),
  tx_hash: (values) => fitsMost(values, (text) => /^(0x)?[0-9a-f]{16,}$/i.test(text.trim())),
  bids: (values) => fitsMost(values, (text) => parseLevels(text) !== null),
  asks: (values) => fitsMost(values, (text) => parseLevels(text) !== null),
};
