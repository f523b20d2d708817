package a2a

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"innerd/adapter/a2a/spec"
)

// Signer signs cards with a private key.
type Signer struct {
	key crypto.Signer
	alg string
	kid string
}

// NewSigner reads a private key in PEM: ECDSA on P-256, Ed25519 or RSA. The
// key's id in signatures is kid; "" is made from the public key.
func NewSigner(pemData []byte, kid string) (*Signer, error) {
	block, _ := pem.Decode(pemData)
	if block == nil {
		return nil, errors.New("there is no PEM block in it")
	}
	key, err := parseKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	s := &Signer{kid: kid}
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return nil, errors.New("an ECDSA key must be on P-256")
		}
		s.key, s.alg = k, "ES256"
	case ed25519.PrivateKey:
		s.key, s.alg = k, "EdDSA"
	case *rsa.PrivateKey:
		s.key, s.alg = k, "RS256"
	default:
		return nil, fmt.Errorf("a key of type %T cannot sign cards; use ECDSA on P-256, Ed25519 or RSA", key)
	}
	if s.kid == "" {
		der, err := x509.MarshalPKIXPublicKey(s.key.Public())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(der)
		s.kid = base64.RawURLEncoding.EncodeToString(sum[:12])
	}
	return s, nil
}

func parseKey(der []byte) (any, error) {
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return k, nil
	}
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k, nil
	}
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k, nil
	}
	return nil, errors.New("it is no private key in PKCS #8, SEC 1 or PKCS #1")
}

// Sign puts a signature into a card: a JSON Web Signature over the card's
// canonical form (RFC 8785) without signatures.
func (s *Signer) Sign(card *spec.AgentCard) error {
	card.Signatures = nil
	payload, err := canonical(encode(card))
	if err != nil {
		return err
	}
	protected := b64(encode(map[string]string{"alg": s.alg, "kid": s.kid, "typ": "JOSE"}))
	sig, err := s.sign([]byte(protected + "." + b64(payload)))
	if err != nil {
		return fmt.Errorf("a2a: sign the card: %w", err)
	}
	card.Signatures = []spec.CardSignature{{Protected: protected, Signature: b64(sig)}}
	return nil
}

func (s *Signer) sign(input []byte) ([]byte, error) {
	sum := sha256.Sum256(input)
	switch k := s.key.(type) {
	case *ecdsa.PrivateKey:
		r, v, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			return nil, err
		}
		return append(fill32(r), fill32(v)...), nil
	case ed25519.PrivateKey:
		return k.Sign(rand.Reader, input, crypto.Hash(0))
	}
	return s.key.Sign(rand.Reader, sum[:], crypto.SHA256)
}

func fill32(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// signed is a card as JSON, signed where there is a key.
func (s *Server) signed(card *spec.AgentCard) (json.RawMessage, error) {
	if s.opt.Signer != nil {
		if err := s.opt.Signer.Sign(card); err != nil {
			return nil, err
		}
	}
	return encode(card), nil
}

// canonical is JSON in the form of RFC 8785. Cards have no numbers but whole
// ones.
func canonical(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return appendCanonical(nil, v)
}

func appendCanonical(dst []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) })
		dst = append(dst, '{')
		for i, name := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(dst, name), ':')
			if dst, err = appendCanonical(dst, v[name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendCanonical(dst, item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case string:
		return appendText(dst, v), nil
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		if err != nil || n > 1<<53 || n < -1<<53 {
			return nil, fmt.Errorf("a2a: the number %s has no canonical form here", v)
		}
		return strconv.AppendInt(dst, n, 10), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	}
	return append(dst, "null"...), nil
}

// appendText escapes what RFC 8785 says, and nothing else.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
